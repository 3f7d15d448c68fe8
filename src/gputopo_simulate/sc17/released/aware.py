"""TOPO-AWARE and TOPO-AWARE-P of the released program.

The program divides the machines, and then the GPUs of one machine, in two by their number. On each
level it compares all GPU sets and takes the last of the best.
"""

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import NamedTuple

from gputopo_simulate.sc17.profiles import CaffeProfiles
from gputopo_simulate.sc17.released.scores import (
    ReleasedCosts,
    caused_interference,
    communication,
    fragmentation,
    interference,
    set_utilities,
    system_utility,
)
from gputopo_simulate.sc17.released.state import SOCKETS, Cluster, ReleasedCaffeJob, ReleasedMachine


class MachineGpus(NamedTuple):
    """GPUs of one machine."""

    machine: int
    gpus: tuple[int, ...]


class _Scored(NamedTuple):
    utility: float
    gpus: tuple[int, ...]


class EqualSockets:
    """The order in which the program empties two sockets with equally many GPUs.

    It is the order of two keys in a hash table of Python 2, which depends on their addresses in
    memory. Here the first socket is first, except in the divisions with the numbers ``swapped``.
    """

    def __init__(self, swapped: Collection[int] = ()) -> None:
        self._swapped = swapped
        self._divisions = 0

    def order(self, sizes: Sequence[int]) -> list[int]:
        """Return the sockets in the order in which they are emptied: the smallest first."""
        sockets = list(range(len(sizes)))
        if len(set(sizes)) == 1:
            if self._divisions in self._swapped:
                sockets.reverse()
            self._divisions += 1
        return sorted(sockets, key=sizes.__getitem__)


class AwarePlacement:
    """Places jobs by their utility; one object serves a whole run."""

    def __init__(
        self, profiles: CaffeProfiles, equal_sockets: EqualSockets, *, postpone: bool
    ) -> None:
        self._profiles, self._equal, self._postpone = profiles, equal_sockets, postpone

    def place(self, cluster: Cluster, jobs: Sequence[ReleasedCaffeJob]) -> None:
        """Give GPUs to jobs, one after the other.

        Args:
            cluster: copy of the machines with their free GPUs only.
            jobs: the jobs that are tried, in this order.
        """
        for job in jobs:
            if job.source.gpus <= max(len(machine.free) for machine in cluster.values()):
                self._place(cluster, job)

    def _place(self, cluster: Cluster, job: ReleasedCaffeJob) -> None:
        found = self._map(job, job.source.gpus, cluster)
        machine = cluster[found.machine]
        utilities = set_utilities(job, machine, found.gpus, self._profiles)
        if self._postpone and utilities[0] < job.source.min_utility:
            return
        job.machine, job.gpus, job.utilities = found.machine, found.gpus, utilities
        machine.running[job.source.id] = job
        machine.taken.update(found.gpus)

    def _map(self, job: ReleasedCaffeJob, tasks: int, cluster: Cluster) -> MachineGpus:
        """Return GPUs for some tasks of a job, from a cluster or a part of it with free GPUs."""
        usable = [name for name, machine in cluster.items() if machine.free]
        if len(usable) > 1:
            return self._map(job, tasks, self._better_half(job, tasks, cluster, usable))
        (name,) = usable
        return MachineGpus(name, tuple(self._map_to_machine(job, tasks, cluster[name])))

    def _better_half(
        self,
        job: ReleasedCaffeJob,
        tasks: int,
        cluster: Cluster,
        usable: Sequence[int],
    ) -> Cluster:
        halves: tuple[list[int], list[int]] = ([], [])
        sizes = [0, 0]
        for name in usable:
            half = 0 if sizes[0] <= sizes[1] else 1
            halves[half].append(name)
            sizes[half] += len(cluster[name].free)
        best = [-1.0, -1.0]
        for half, names in enumerate(halves):
            for name in names:
                machine = cluster[name]
                if len(machine.free) >= tasks:
                    found = self._best_set(job, tasks, machine.free, [machine])
                    best[half] = max(best[half], found.utility)
        chosen = halves[0] if best[0] > best[1] else halves[1]
        return {name: cluster[name] for name in chosen}

    def _map_to_machine(
        self, job: ReleasedCaffeJob, tasks: int, machine: ReleasedMachine
    ) -> list[int]:
        if not tasks:
            return []
        if len(machine.free) == 1:
            # The program takes the last GPU of the socket's list, also if another job has it.
            (socket,) = (number for number in range(SOCKETS) if machine.free_of(number))
            return [machine.sockets[socket][-1]]
        parts = self._halves(machine)
        gpus = [gpu for part in parts for gpu in part.free]
        chosen = self._best_set(job, tasks, gpus, parts).gpus
        found: list[int] = []
        for part in parts:
            found += self._map_to_machine(job, len(set(chosen) & set(part.free)), part)
        return found

    def _halves(self, machine: ReleasedMachine) -> list[ReleasedMachine]:
        count = len(machine.free)
        first, second = machine.copy(), machine.copy()
        removed = self._remove(first, count - count // 2, keep=())
        self._remove(second, count // 2, keep=removed)
        return [first, second]

    def _remove(self, part: ReleasedMachine, count: int, keep: Sequence[int]) -> list[int]:
        """Remove GPUs from a part until ``count`` are left; return them.

        The socket with the fewest GPUs is emptied first.
        """
        order = self._equal.order([len(socket) for socket in part.sockets])
        removed: list[int] = []
        for socket in part.sockets:
            if socket:
                gpu = socket.pop(0)
                (removed if gpu in part.taken else socket).append(gpu)
        for number in order:
            socket = part.sockets[number]
            for _ in range(len(socket)):
                if sum(map(len, part.sockets)) <= count:
                    return removed
                gpu = socket.pop(0)
                (socket if gpu in keep else removed).append(gpu)
        return removed

    def _best_set(
        self,
        job: ReleasedCaffeJob,
        tasks: int,
        gpus: Sequence[int],
        parts: Sequence[ReleasedMachine],
    ) -> _Scored:
        """Return the set with the highest utility for the cluster; of several, the last."""
        best = _Scored(-1.0, ())
        for chosen in combinations(gpus, tasks):
            utility = system_utility(self._costs(job, chosen, parts))
            if utility >= best.utility:
                best = _Scored(utility, chosen)
        return best

    def _costs(
        self,
        job: ReleasedCaffeJob,
        gpus: tuple[int, ...],
        parts: Sequence[ReleasedMachine],
    ) -> ReleasedCosts:
        """Return the costs of a set: sums over the parts that it uses; means if it uses both."""
        used = [part for part in parts if set(gpus) & set(part.free)]
        kind = job.kind._replace(gpus=len(gpus))
        suffered = [interference(kind, part, gpus, self._profiles, job.source.id) for part in used]
        fragments = [fragmentation(part, gpus) for part in used]
        rows = [[gpu for socket in part.sockets for gpu in socket] for part in used]
        caused = None
        if parts[0].running:
            caused = caused_interference(kind, parts[0], gpus, self._profiles)
        return ReleasedCosts(
            len(gpus),
            sum(communication(gpus, known) for known in rows),
            sum(suffered) / len(used),
            sum(fragments) / len(used),
            caused,
        )
