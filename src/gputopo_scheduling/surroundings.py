"""What GPUProfiles show about slowdowns between workloads, and which workloads run on a node.

Policy Utility (SC '17) compares GPU sets by the interference with the workloads beside them. A
workload is the GPUProfile that a pod names, written ``NAMESPACE/PROFILE``. Its slowdown beside
another workload is the estimate in ``GPUProfile.status.facts.neighbours``. The estimate counts
whatever the width of its interval, because the operator publishes a slowdown only after samples
have reduced its uncertainty, and the estimate is nearer to 0 the less the samples show.

The slowdown of a pair that was not measured is that of similar measured pairs
(:class:`gputopo.utility.interference.SlowdownTable`). The groups are the workloads that are
sensitive to the bandwidth between GPUs, and those that are not: the traffic between the GPUs of a
job is what slows its neighbours down. A pod without a GPUProfile has a group only if it declares
its sensitivity.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import ValidationError

from gputopo.api.names import SENSITIVITY_ANNOTATION
from gputopo.api.profile import GPUProfileSpec, LinkFact, NeighbourFact
from gputopo.placement.model import PlacementRequest
from gputopo.sensitivity.resolve import SENSITIVE_FROM_PERCENT, Sensitivity
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.utility.communication import sockets, sockets_of
from gputopo.utility.interference import RunningNeighbour, SlowdownTable, WorkloadKind
from gputopo.utility.surroundings import job_surroundings
from gputopo.utility.utility import UtilityWeights
from gputopo_cluster.occupants import Occupant
from gputopo_cluster.topologies import UnreadableTopology
from gputopo_cluster.usage import NodeUsage
from gputopo_kube.document import Document
from gputopo_kube.pods import PodView
from gputopo_kube.workload import workload_name
from gputopo_scheduling.sharing_facts import KnownSharing, parse_sharing_facts

_Fact = TypeVar("_Fact", NeighbourFact, LinkFact)

SENSITIVE: Final = Sensitivity.SENSITIVE.value
INSENSITIVE: Final = Sensitivity.INSENSITIVE.value


class BesideSlowdown(NamedTuple):
    """How much longer a workload runs beside one pod of ``neighbour``, in percent.

    Attributes:
        same_socket: whether the pod uses the same sockets, or only other sockets of the node.
    """

    neighbour: str
    same_socket: bool
    percent: int


@dataclass(frozen=True, slots=True)
class KnownWorkload:
    """What a GPUProfile shows about its workload beside others.

    Attributes:
        beside: slowdowns by pods with other GPUs of the node.
        sharing: speeds beside pods on the same GPU; None if there are no facts.
    """

    kind: WorkloadKind
    beside: tuple[BesideSlowdown, ...] = ()
    sharing: KnownSharing | None = None


LARGEST_SLOWDOWN: Final = 4.0
"""Higher slowdowns count as this one. The highest slowdown of all pairs is the worst case of every
job, so one wrong fact of one workload would make all other slowdowns of the cluster negligible.
SC '17 measured at most 1.37 beside one neighbour, so 4 (300 %) is far above what sockets cause."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NodeSurroundings:
    """The workloads that run on a node.

    The extender keeps one object for all nodes with an equal ``neighbours``, and compares these
    objects by identity.

    Attributes:
        neighbours: each workload with all GPUs of the sockets that it uses, because no more
            decides about interference. Workloads without a known slowdown have no name.
    """

    neighbours: tuple[RunningNeighbour, ...] = ()


NOTHING_RUNS: Final = NodeSurroundings()
"""The surroundings of each node without workloads of known interference."""


@dataclass(frozen=True)
class InterferenceFacts:
    """The slowdowns of all workloads between each other. They are unknown without GPUProfiles.

    Attributes:
        workloads: the workloads by name.
    """

    workloads: Mapping[str, KnownWorkload] = field(default_factory=dict)

    @cached_property
    def slowdowns(self) -> SlowdownTable:
        """The slowdowns of all pairs."""
        near: dict[tuple[WorkloadKind, WorkloadKind], float] = {}
        far: dict[tuple[WorkloadKind, WorkloadKind], float] = {}
        for workload in self.workloads.values():
            for each in workload.beside:
                table = near if each.same_socket else far
                table[workload.kind, self._kind(each.neighbour)] = _slowdown(each.percent)
        return SlowdownTable(near, far)

    def slowdowns_of(self, own: WorkloadKind) -> SlowdownTable:
        """Return the slowdowns that a workload suffers or causes."""
        if own not in self._by_job:
            self._by_job[own] = self.slowdowns.of_job(own)
        return self._by_job[own]

    @cached_property
    def _by_job(self) -> dict[WorkloadKind, SlowdownTable]:
        """Results of :meth:`slowdowns_of`: each filter of a pod needs one."""
        return {}

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """The group of each workload."""
        return {name: workload.kind.group for name, workload in self.workloads.items()}

    @cached_property
    def kinds(self) -> Mapping[str, WorkloadKind]:
        """The workloads that have, or cause, a known slowdown, by name."""
        names = {
            name
            for own, workload in self.workloads.items()
            for each in workload.beside
            for name in (own, each.neighbour)
        }
        return {name: self._kind(name) for name in sorted(names)}

    def kind_of(self, pod: PodView) -> WorkloadKind:
        """Return what a pod runs; the name is empty if no slowdown of its workload is known."""
        name = workload_name(pod)
        if name in self.kinds:
            return self.kinds[name]
        declared = pod.annotations.get(SENSITIVITY_ANNOTATION, "")
        known = self._kind(name).group
        return WorkloadKind("", declared if declared in {SENSITIVE, INSENSITIVE} else known)

    def neighbours(
        self, topology: NodeTopology, occupants: Iterable[Occupant]
    ) -> tuple[RunningNeighbour, ...]:
        """Return the workloads of a node, sorted; none if no slowdown is known.

        Pods that have ended are left out.
        """
        if not self.kinds:
            return ()
        on_sockets = sockets(topology)
        found = [
            RunningNeighbour(
                WorkloadKind("") if each.pod is None else self.kind_of(each.pod),
                _whole_sockets(each, on_sockets, topology.mask),
            )
            for each in occupants
            if not each.ended and (each.gpus or each.unknown)
        ]
        return tuple(sorted(found, key=_order))

    def _kind(self, name: str) -> WorkloadKind:
        known = self.workloads.get(name)
        return WorkloadKind(name) if known is None else known.kind


def parse_workload(document: Document) -> KnownWorkload:
    """Return what a GPUProfile object shows; facts that cannot be parsed are left out."""
    metadata = document["metadata"]
    status = document.get("status")
    facts = status.get("facts") if isinstance(status, dict) else None
    facts = facts if isinstance(facts, dict) else {}
    beside = [
        BesideSlowdown(fact.workload, fact.scope == "Socket", fact.percent)
        for fact in _valid(NeighbourFact, facts.get("neighbours"))
    ]
    group = _declared_group(document.get("spec")) or _measured_group(facts.get("links"))
    name = f"{metadata['namespace']}/{metadata['name']}"
    sharing = parse_sharing_facts(name, facts)
    return KnownWorkload(WorkloadKind(name, group), tuple(sorted(beside)), sharing)


def interference_facts(profiles: Iterable[Document]) -> InterferenceFacts:
    """Return the facts of all GPUProfile objects."""
    return InterferenceFacts({known.kind.name: known for known in map(parse_workload, profiles)})


def surroundings_of(
    usages: Mapping[str, NodeUsage | UnreadableTopology], facts: InterferenceFacts
) -> dict[str, NodeSurroundings]:
    """Return the surroundings of each node; equal surroundings are the same object."""
    shared = {NOTHING_RUNS.neighbours: NOTHING_RUNS}
    found: dict[str, NodeSurroundings] = {}
    for name, usage in usages.items():
        neighbours = (
            facts.neighbours(usage.topology, usage.occupants)
            if isinstance(usage, NodeUsage)
            else ()
        )
        found[name] = shared.setdefault(neighbours, NodeSurroundings(neighbours))
    return found


def with_surroundings(
    request: PlacementRequest,
    pod: PodView,
    facts: InterferenceFacts,
    nodes: Iterable[NodeTopology],
    weights: UtilityWeights,
) -> PlacementRequest:
    """Return a request of the policy Utility with what is known of slowdowns.

    ``nodes`` are the topologies of the nodes of the cluster; several may be equal.
    """
    workload = facts.kind_of(pod)
    surroundings = job_surroundings(workload, facts.slowdowns_of(workload), nodes, weights)
    return replace(request, surroundings=surroundings)


def _declared_group(spec: object) -> str:
    """Return the group by ``bandwidthSensitivityPercent``; empty if it is not set or not valid."""
    field_name = "bandwidthSensitivityPercent"
    value = spec.get(field_name) if isinstance(spec, dict) else None
    with suppress(ValidationError):
        declared = GPUProfileSpec.model_validate({field_name: value}).bandwidth_sensitivity_percent
        if declared is not None:
            return SENSITIVE if declared >= SENSITIVE_FROM_PERCENT else INSENSITIVE
    return ""


def _measured_group(links: object) -> str:
    """Return the group by the facts about links: sensitive if so with any number of GPUs."""
    found = {fact.sensitivity for fact in _valid(LinkFact, links)}
    return next((group for group in (SENSITIVE, INSENSITIVE) if group in found), "")


def _valid(model: type[_Fact], items: object) -> Iterator[_Fact]:
    for item in items if isinstance(items, list) else ():
        with suppress(ValidationError):
            yield model.model_validate(item)


def _slowdown(percent: int) -> float:
    return min(max(1.0, 1 + percent / 100), LARGEST_SLOWDOWN)


def _whole_sockets(occupant: Occupant, on_sockets: Sequence[GpuMask], all_gpus: GpuMask) -> GpuMask:
    """Return all GPUs of the sockets that a pod uses; all GPUs if some of its GPUs are unknown."""
    return all_gpus if occupant.unknown else sockets_of(occupant.gpus, on_sockets)


def _order(neighbour: RunningNeighbour) -> tuple[Any, ...]:
    return neighbour.gpus, neighbour.workload.name, neighbour.workload.group
