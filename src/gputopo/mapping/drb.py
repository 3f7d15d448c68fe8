"""Dual recursive bi-partitioning (algorithms 2 and 3 of the paper).

The cluster is halved again and again. Each time, every rank of the job goes to the half that gives
it the higher utility, and a half that is full takes no more. A rank is mapped when its half is one
GPU. A decision is not changed later, so the result can be worse than the best placement.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gputopo.mapping.hardware import ClusterHardware, MachineHardware
from gputopo.mapping.model import ClusterGpu, MappingJob, MappingNode, UtilitySettings
from gputopo.mapping.partition import ClusterPart, MachinePart
from gputopo.topology.model import GpuMask, indices_of
from gputopo.utility.cost import Cost
from gputopo.utility.fragmentation import SocketUse, fragmentation_cost
from gputopo.utility.interference import WorkloadKind, beside, interference_costs
from gputopo.utility.utility import PlacementCosts, utility


class Region(NamedTuple):
    """Free GPUs of one node to which a rank can still go."""

    node: str
    gpus: GpuMask


class Bipartitioning:
    """Maps one job to nodes that together have enough free GPUs.

    Args:
        ranks: most ranks that each node can take; nodes without an entry take none.
    """

    def __init__(
        self,
        job: MappingJob,
        nodes: Mapping[str, MappingNode],
        ranks: Mapping[str, int],
        hardware: ClusterHardware,
        settings: UtilitySettings,
    ) -> None:
        self._job, self._nodes, self._ranks = job, nodes, ranks
        self._hardware, self._settings = hardware, settings
        self._edges: list[list[tuple[int, int]]] = [[] for _ in range(job.pattern.size)]
        for a, b, weight in job.pattern.edges:
            self._edges[a].append((b, weight))
            self._edges[b].append((a, weight))
        self._regions: dict[int, Region] = {}

    def place(self, cluster: ClusterPart) -> tuple[ClusterGpu, ...]:
        """Return the GPU of each rank; the nodes can take all ranks."""
        self._map_to_cluster(self._by_connection(), cluster)
        return tuple(
            ClusterGpu(region.node, *indices_of(region.gpus))
            for _, region in sorted(self._regions.items())
        )

    def _by_connection(self) -> list[int]:
        """Return the ranks so that each is strongly connected with those before it."""
        order: list[int] = []
        remaining = list(range(self._job.pattern.size))
        while remaining:
            total = {rank: self._weight(rank, order) for rank in remaining}
            overall = {rank: sum(w for _, w in self._edges[rank]) for rank in remaining}
            chosen = max(remaining, key=lambda rank: (total[rank], overall[rank], -rank))
            order.append(chosen)
            remaining.remove(chosen)
        return order

    def _weight(self, rank: int, others: Sequence[int]) -> int:
        return sum(weight for other, weight in self._edges[rank] if other in others)

    def _map_to_cluster(self, tasks: Sequence[int], part: ClusterPart) -> None:
        if not tasks:
            return
        if part.halves is None:
            self._map_to_node(tasks, *part.machines)
            return
        capacities = [self._capacity(half) for half in part.halves]
        if 0 in capacities:
            self._map_to_cluster(tasks, part.halves[capacities.index(max(capacities))])
            return
        regions = [self._most_attractive(half, len(tasks)) for half in part.halves]
        together = not self._job.several_nodes
        split = self._split(tasks, regions, capacities, together=together)
        for tasks_of_half, half in zip(split, part.halves, strict=True):
            self._map_to_cluster(tasks_of_half, half)

    def _capacity(self, part: ClusterPart) -> int:
        ranks = [self._ranks.get(name, 0) for name in part.machines]
        return sum(ranks) if self._job.several_nodes else max(ranks)

    def _most_attractive(self, part: ClusterPart, tasks: int) -> Region:
        """Return the node of a part that stands for it when its utility is estimated.

        This is the node that takes all tasks and has the fewest free GPUs, or else the node that
        takes the most tasks.
        """
        best = max(
            (name for name in part.machines if name in self._ranks),
            key=lambda name: (
                min(self._ranks[name], tasks),
                -self._nodes[name].free.bit_count(),
            ),
        )
        return Region(best, self._nodes[best].free)

    def _map_to_node(self, tasks: Sequence[int], name: str) -> None:
        node = self._nodes[name]
        for task in tasks:
            self._regions[task] = Region(name, node.free)
        self._map_to_machine(tasks, name, self._hardware.of(node.topology).parts)

    def _map_to_machine(self, tasks: Sequence[int], node: str, part: MachinePart) -> None:
        if not tasks or part.halves is None:
            return
        free = self._nodes[node].free
        regions = [Region(node, GpuMask(half.gpus & free)) for half in part.halves]
        capacities = [region.gpus.bit_count() for region in regions]
        split = self._split(tasks, regions, capacities)
        for tasks_of_half, region in zip(split, regions, strict=True):
            self._regions.update(dict.fromkeys(tasks_of_half, region))
        for tasks_of_half, half in zip(split, part.halves, strict=True):
            self._map_to_machine(tasks_of_half, node, half)

    def _split(
        self,
        tasks: Sequence[int],
        regions: Sequence[Region],
        capacities: Sequence[int],
        *,
        together: bool = False,
    ) -> tuple[list[int], list[int]]:
        """Divide ranks between two halves (algorithm 3), or give all to one half (``together``)."""
        split: tuple[list[int], list[int]] = ([], [])
        pending = set(tasks)
        for task in tasks:
            pending.remove(task)
            estimate = _SplitEstimate(split, pending, regions, capacities)
            left, right = (self._utility(task, half, estimate) for half in (0, 1))
            chosen = split[0 if left >= right else 1]
            if together:
                chosen += tasks
                break
            chosen.append(task)
        return split

    def _utility(self, task: int, half: int, estimate: "_SplitEstimate") -> float:
        """Return the estimated utility of a rank in a half; 0 if the half is full."""
        if len(estimate.split[half]) >= estimate.capacities[half]:
            return 0.0
        near, sockets = list[WorkloadKind](), list[SocketUse]()
        for region, tasks in zip(estimate.regions, estimate.ranks_of_halves(half), strict=True):
            if tasks:
                neighbours, free, total = self._quietest_socket(region)
                near += neighbours
                sockets.append(SocketUse(max(0, free - tasks), total))
        slowdowns = self._settings.slowdowns
        interference, suffered = interference_costs(self._job.workload, near, slowdowns)
        hardware = self._hardware.of(self._nodes[estimate.regions[half].node].topology)
        costs = PlacementCosts(
            self._communication(task, half, estimate, hardware),
            interference,
            suffered,
            fragmentation_cost(sockets, hardware.largest_socket),
        )
        return utility(costs, self._settings.weights)

    def _quietest_socket(self, region: Region) -> "_SocketEstimate":
        """Return the socket of a region with the least interference, then the fewest free GPUs."""
        node = self._nodes[region.node]
        found = []
        for socket in self._hardware.of(node.topology).sockets:
            if gpus := GpuMask(socket & region.gpus):
                near = beside(gpus, node.neighbours, (socket,))
                free = (node.free & socket).bit_count()
                found.append(_SocketEstimate(near, free, socket.bit_count()))
        return min(found, key=lambda socket: (self._interference(socket.near), socket.free))

    def _interference(self, near: Sequence[WorkloadKind]) -> float:
        slowdowns = self._settings.slowdowns
        return interference_costs(self._job.workload, near, slowdowns)[0].value

    def _communication(
        self, task: int, half: int, estimate: "_SplitEstimate", hardware: MachineHardware
    ) -> Cost:
        region, other = estimate.regions[half], estimate.regions[1 - half]
        inside = estimate.remaining_capacity(half) - 1
        length = 0.0
        for peer, weight in self._edges[task]:
            if peer in estimate.split[half]:
                distance = self._distance(region, region)
            elif peer in estimate.split[1 - half]:
                distance = self._distance(region, other)
            elif peer in estimate.pending:
                # Pending peers follow the rank as long as its half is not full.
                distance = self._distance(region, region if inside > 0 else other)
                inside -= 1
            else:
                # A peer that has no node yet counts as equally far from both halves.
                distance = self._distance(region, self._regions.get(peer, other))
            length += weight * distance
        scale = self._scale(estimate.regions, hardware)
        weights = sum(weight for _, weight in self._edges[task])
        return Cost(length, best=0.0, worst=scale * weights)

    def _scale(self, regions: Sequence[Region], hardware: MachineHardware) -> float:
        """Return the longest distance that counts in one split."""
        if regions[0].node == regions[1].node and not self._job.several_nodes:
            return hardware.longest
        return max(self._to_network(region) for region in regions) * 2

    def _distance(self, first: Region, second: Region) -> float:
        if first.node == second.node:
            hardware = self._hardware.of(self._nodes[first.node].topology)
            return hardware.mean_distance(first.gpus, second.gpus)
        return self._to_network(first) + self._to_network(second)

    def _to_network(self, region: Region) -> int:
        hardware = self._hardware.of(self._nodes[region.node].topology)
        return max(hardware.to_network.values())


class _SocketEstimate(NamedTuple):
    """A socket with the workloads on it, its free GPUs and all its GPUs."""

    near: tuple[WorkloadKind, ...]
    free: int
    total: int


class _SplitEstimate(NamedTuple):
    """One split so far: ranks of both halves, ranks not yet split, regions, capacities."""

    split: tuple[list[int], list[int]]
    pending: set[int]
    regions: Sequence[Region]
    capacities: Sequence[int]

    def remaining_capacity(self, half: int) -> int:
        return self.capacities[half] - len(self.split[half])

    def ranks_of_halves(self, half: int) -> tuple[int, int]:
        """Return the ranks of both halves if this rank and those after it go to ``half``.

        Ranks for which it is too small go to the other half.
        """
        more = 1 + len(self.pending)
        here = min(more, self.remaining_capacity(half))
        added = (here, more - here) if half == 0 else (more - here, here)
        return len(self.split[0]) + added[0], len(self.split[1]) + added[1]
