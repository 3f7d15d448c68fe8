"""Compute the costs and the utility of placements of one job in one state of the cluster."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from gputopo.mapping.hardware import ClusterHardware
from gputopo.mapping.model import ClusterGpu, JobMapping, MappingJob, MappingNode, UtilitySettings
from gputopo.topology.model import GpuMask, mask_of
from gputopo.utility.communication import communication_cost, path_length
from gputopo.utility.cost import Cost, CostScale
from gputopo.utility.fragmentation import SocketUse, fragmentation_cost, used_sockets
from gputopo.utility.interference import WorkloadKind, beside, interference_costs
from gputopo.utility.utility import PlacementCosts, job_utility, utility


class PlacementEvaluation:
    """Evaluates placements of one job. GPUs of placements must be free."""

    def __init__(
        self,
        job: MappingJob,
        nodes: Mapping[str, MappingNode],
        scale: CostScale,
        hardware: ClusterHardware,
        settings: UtilitySettings,
    ) -> None:
        self.job, self.nodes, self.scale = job, nodes, scale
        self._hardware, self._settings = hardware, settings
        self._set_costs: dict[frozenset[ClusterGpu], tuple[Cost, Cost, Cost]] = {}

    def distance(self, a: ClusterGpu, b: ClusterGpu) -> int:
        """Return the length of the shortest path between two GPUs of the cluster."""
        first = self._hardware.of(self.nodes[a.node].topology)
        if a.node == b.node:
            return first.distances[a.gpu, b.gpu]
        second = self._hardware.of(self.nodes[b.node].topology)
        return first.to_network[a.gpu] + second.to_network[b.gpu]

    def length(self, gpus: Sequence[ClusterGpu]) -> int:
        """Return the weighted path length of a placement; ``gpus`` has the GPU of each rank."""
        return path_length(self.job.pattern, gpus.__getitem__, self.distance)

    def mapping(self, gpus: Sequence[ClusterGpu], *, exact: bool) -> JobMapping:
        """Return a placement with its costs and utilities."""
        costs = self._costs(frozenset(gpus), self.length(gpus))
        weights = self._settings.weights
        return JobMapping(
            gpus=tuple(gpus),
            costs=costs,
            utility=utility(costs, weights),
            job_utility=job_utility(costs, weights),
            exact=exact,
        )

    def utility_with(self, gpus: frozenset[ClusterGpu], length: int) -> float:
        """Return the utility of a GPU set if its weighted path length were ``length``."""
        return utility(self._costs(gpus, length), self._settings.weights)

    def _costs(self, gpus: frozenset[ClusterGpu], length: int) -> PlacementCosts:
        if gpus not in self._set_costs:
            self._set_costs[gpus] = self._costs_of_set(gpus)
        interference, suffered, fragmentation = self._set_costs[gpus]
        scale = self.scale
        return PlacementCosts(
            communication_cost(self.job.pattern, length, scale.best_length, scale.longest),
            interference,
            suffered,
            fragmentation,
        )

    def _costs_of_set(self, gpus: Collection[ClusterGpu]) -> tuple[Cost, Cost, Cost]:
        """Return interference, suffered interference and fragmentation."""
        near, used = list[WorkloadKind](), list[SocketUse]()
        for name, mask in _masks(gpus).items():
            node = self.nodes[name]
            sockets = self._hardware.of(node.topology).sockets
            near += beside(mask, node.neighbours, sockets)
            used += used_sockets(mask, node.free, sockets)
        slowdowns = self._settings.slowdowns
        interference, suffered = interference_costs(self.job.workload, near, slowdowns)
        return interference, suffered, fragmentation_cost(used, self.scale.largest_socket)


def _masks(gpus: Collection[ClusterGpu]) -> dict[str, GpuMask]:
    by_node = defaultdict(list)
    for node, gpu in sorted(gpus):
        by_node[node].append(gpu)
    return {node: mask_of(indices) for node, indices in by_node.items()}
