"""The policies of the paper, and those of gputopo beside them.

* ``fcfs``: first come, first served. The first machine with enough free GPUs, its lowest GPUs.
* ``bf``: best fit, that is the machine and then the socket with the fewest free GPUs.
* ``topo-aware``: the placement with the highest utility (equation 2), at once.
* ``topo-aware-p``: the same, but a job waits if its own utility would be below its minimum.
* ``baseline``, ``nearest``, ``greedy``, ``preserve``: gputopo's policies by the paper MAPA, with
  gputopo's scores of nodes. ``nearest`` is MAPA's topology-aware policy.

With ``fcfs`` no job overtakes another. With all others a job that fits nowhere is overtaken.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.mapping.mapper import Mapper
from gputopo.mapping.model import ClusterGpu, JobMapping, MappingJob, UtilitySettings
from gputopo.patterns.model import all_to_all, ring
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.placement.place import ranking
from gputopo.placement.score import Candidate, rank_nodes
from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology, indices_of, mask_of
from gputopo.utility.communication import sockets
from gputopo_simulate.sc17.machines import MachineState, SimulatedMachines
from gputopo_simulate.sc17.profiles import CaffeProfiles, JobKind, Sockets, workload_of

SENSITIVE_SLOWDOWN: Final = 1.1
"""A kind of job is bandwidth-sensitive if two sockets make it at least 10 % slower than one."""


@dataclass(frozen=True, slots=True)
class MachineChoice:
    """Machine and GPUs for a job."""

    machine: int
    gpus: GpuMask


class Chooser(Protocol):
    """Chooses GPUs for a job; at least one machine has enough free GPUs."""

    def __call__(self, kind: JobKind, machines: SimulatedMachines, /) -> MachineChoice:
        """Return the choice. It depends only on the arguments."""


class Judge:
    """The utility of placements on one kind of machine, and the placement that has most."""

    def __init__(
        self, topology: NodeTopology, profiles: CaffeProfiles, settings: UtilitySettings
    ) -> None:
        self._topology, self._profiles = topology, profiles
        self._mapper = Mapper({_MACHINE: topology}, settings)
        self._best: dict[tuple[MachineState, JobKind], JobMapping] = {}

    def best(self, state: MachineState, kind: JobKind) -> JobMapping:
        """Return the best placement on a machine with enough free GPUs."""
        key = state, kind
        if key not in self._best:
            node = state.node(self._topology)
            self._best[key] = self._mapper.on_node(mapping_job(kind), _MACHINE, node)
        return self._best[key]

    def judged(self, state: MachineState, kind: JobKind, gpus: GpuMask) -> JobMapping:
        """Return the utilities of GPUs that any policy has chosen."""
        chosen = self._best.get((state, kind))
        if chosen is not None and mask_of(gpu.gpu for gpu in chosen.gpus) == gpus:
            return chosen
        placement = [ClusterGpu(_MACHINE, gpu) for gpu in indices_of(gpus)]
        return self._mapper.evaluated(
            mapping_job(kind), {_MACHINE: state.node(self._topology)}, placement
        )


_MACHINE: Final = "machine"


def mapping_job(kind: JobKind) -> MappingJob:
    """Return a job as the mapping sees it: all GPUs communicate with each other equally."""
    return MappingJob(all_to_all(kind.gpus), workload_of(kind))


def _first_fit(kind: JobKind, machines: SimulatedMachines) -> MachineChoice:
    machine, state = min((number, state) for state, number in machines.groups(kind.gpus))
    return MachineChoice(machine, mask_of(indices_of(state.free)[: kind.gpus]))


def _best_fit(kind: JobKind, machines: SimulatedMachines) -> MachineChoice:
    _, machine, state = min(
        (state.free_gpus, number, state) for state, number in machines.groups(kind.gpus)
    )
    free = [GpuMask(socket & state.free) for socket in sockets(machines.topology)]
    free.sort(key=lambda gpus: (gpus.bit_count(), gpus))
    ordered: list[GpuIndex] = [gpu for socket in free for gpu in indices_of(socket)]
    return MachineChoice(machine, mask_of(ordered[: kind.gpus]))


def _highest_utility(judge: Judge, kind: JobKind, machines: SimulatedMachines) -> MachineChoice:
    """Return the best placement; of equal machines, the one with the fewest free GPUs."""
    best = min(
        machines.groups(kind.gpus),
        key=lambda group: (-judge.best(group[0], kind).utility, group[0].free_gpus, group[1]),
    )
    mapping = judge.best(best[0], kind)
    return MachineChoice(best[1], mask_of(gpu.gpu for gpu in mapping.gpus))


class _MapaChooser:
    """One of MAPA's policies, with gputopo's ranks of nodes."""

    def __init__(self, policy: PolicyName, profiles: CaffeProfiles) -> None:
        self._policy, self._profiles = policy, profiles
        self._candidates: dict[tuple[GpuMask, JobKind], Candidate] = {}

    def __call__(self, kind: JobKind, machines: SimulatedMachines) -> MachineChoice:
        first: dict[GpuMask, int] = {}
        for state, number in machines.groups(kind.gpus):
            first[state.free] = min(number, first.get(state.free, number))
        candidates = {free: self._candidate(machines.topology, free, kind) for free in first}
        ranks = rank_nodes(candidates, sensitive=self._sensitive(kind))
        free = min(first, key=lambda free: (ranks[free], free))
        return MachineChoice(first[free], mask_of(candidates[free].match.gpus))

    def _sensitive(self, kind: JobKind) -> bool:
        return self._profiles.link_slowdown(kind, Sockets.SEVERAL) >= SENSITIVE_SLOWDOWN

    def _candidate(self, topology: NodeTopology, free: GpuMask, kind: JobKind) -> Candidate:
        key = free, kind
        if key not in self._candidates:
            request = PlacementRequest(ring(kind.gpus), self._sensitive(kind), self._policy)
            (match,) = ranking(topology, free, request, most=1)
            lost = preserved_mb_per_s(topology, free) - match.preserved_mb_per_s
            self._candidates[key] = Candidate(match, lost)
        return self._candidates[key]


@dataclass(frozen=True, slots=True)
class Sc17Policy:
    """A policy of a run.

    Attributes:
        overtakes: whether a job may start before older jobs that fit nowhere.
        postpones: whether a job waits if its utility would be below its minimum.
    """

    choose: Chooser
    overtakes: bool
    postpones: bool


_MAPA: Final[Mapping[str, PolicyName]] = MappingProxyType(
    {
        "baseline": PolicyName.BASELINE,
        "nearest": PolicyName.TOPO_AWARE,
        "greedy": PolicyName.GREEDY,
        "preserve": PolicyName.PRESERVE,
    }
)

PAPER_POLICIES: Final = ("fcfs", "bf", "topo-aware", "topo-aware-p")
POLICIES: Final = (*PAPER_POLICIES, *_MAPA)


def policy_named(name: str, judge: Judge, profiles: CaffeProfiles) -> Sc17Policy:
    """Return the policy with a name of :data:`POLICIES`."""
    if name in _MAPA:
        return Sc17Policy(_MapaChooser(_MAPA[name], profiles), overtakes=True, postpones=False)
    makers: Mapping[str, Callable[[], Sc17Policy]] = {
        "fcfs": lambda: Sc17Policy(_first_fit, overtakes=False, postpones=False),
        "bf": lambda: Sc17Policy(_best_fit, overtakes=True, postpones=False),
        "topo-aware": lambda: _by_utility(judge, postpones=False),
        "topo-aware-p": lambda: _by_utility(judge, postpones=True),
    }
    return makers[name]()


def _by_utility(judge: Judge, *, postpones: bool) -> Sc17Policy:
    return Sc17Policy(partial(_highest_utility, judge), overtakes=True, postpones=postpones)
