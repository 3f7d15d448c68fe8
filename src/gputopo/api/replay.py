"""The part ``replay`` of ``gputopo.io/placement``: all that a repetition of the decision needs.

The rest of the annotation has the policy, the pattern and the figures of the choice. The structure
of the node is in its GPUTopology, and the record has the fingerprint of the structure.
"""

from typing import Annotated

from pydantic import Field, ValidationError

from gputopo.api.annotations import AnnotationError, PlacementAnnotation
from gputopo.api.known_facts import FactsAnnotation, KnownSlowdown
from gputopo.api.model import ApiModel
from gputopo.api.names import PLACEMENT_ANNOTATION
from gputopo.api.utility import UtilityPercent
from gputopo.patterns.model import MAX_GPUS_PER_POD
from gputopo.runtime.messages import first_error
from gputopo.topology.model import MAX_INDEX, GpuIndex, indices_of, mask_of
from gputopo.utility.cost import CostScale
from gputopo.utility.interference import SlowdownSource
from gputopo.utility.surroundings import NodeNeighbour, PairSlowdown, Surroundings
from gputopo.utility.utility import UtilityWeights

MAX_EDGES = MAX_GPUS_PER_POD * (MAX_GPUS_PER_POD - 1) // 2
"""Edges of a Custom pattern in which all ranks communicate."""

_Index = Annotated[int, Field(ge=0, le=MAX_INDEX)]
_Rank = Annotated[int, Field(ge=0, lt=MAX_GPUS_PER_POD)]
_Weight = Annotated[int, Field(ge=1, le=2**53 - 1)]
_Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Length = Annotated[int, Field(ge=0, le=2**53 - 1)]
_SlowdownPercent = Annotated[int, Field(ge=0, le=10**6)]
_Slowdown = tuple[_SlowdownPercent, SlowdownSource]
_LONGEST_WORKLOAD = 64  # written by earlier versions
_RECORDED_WORKLOAD = 44  # 15 neighbours and all kinds of misfits have to fit into 4 KiB
_Word = Annotated[str, Field(min_length=1, max_length=64)]


class RecordedFact(ApiModel):
    """What was known of the workload's slowdown on slow links when the pod was placed.

    Attributes:
        profile: name of the GPUProfile.
        source: ``Declared``, ``Measured`` or ``Counters``.
    """

    profile: Annotated[str, Field(min_length=1, max_length=253)]
    source: Annotated[str, Field(max_length=64)]
    slowdown: KnownSlowdown

    @classmethod
    def of(cls, facts: FactsAnnotation, gpus: int) -> "RecordedFact | None":
        """Return the fact about jobs of this number of GPUs, or None if there is none."""
        slowdown = facts.slowdown(gpus)
        if slowdown is None:
            return None
        source = slowdown.source or facts.source[:64]
        return cls(profile=facts.profile, source=source, slowdown=slowdown)


class RecordedNodes(ApiModel):
    """How the chosen node compared with the other nodes, in the last filter of the pod.

    Attributes:
        compared: nodes that kube-scheduler sent to filter, the chosen node included.
        fitted: nodes on which the pod fitted.
        better: nodes with a better placement than the chosen node. kube-scheduler can prefer
            another node, for example because of the pod's affinity.
        equal: nodes that were as good as the chosen node, without the chosen node.
        score: score of the chosen node, 0..10.
        misfits: number of the other nodes, by the kind of reason why the pod did not fit.
    """

    compared: _Count
    fitted: _Count
    better: _Count
    equal: _Count
    score: Annotated[int, Field(ge=0, le=10)]
    misfits: Annotated[dict[_Word, _Count], Field(max_length=32)] = {}


class RecordedNeighbour(ApiModel):
    """A job that ran on the node, and the slowdowns in percent that were assumed.

    Attributes:
        workload: what the job ran; a long name is cut. It is for people: the slowdowns decide.
        gpus: its GPUs, or all GPUs of its sockets.
        suffered: how much it slows the placed job down, and where this is from.
        caused: how much the placed job slows it down, and where this is from.
        far: suffered and caused slowdown if both use different sockets; None if not measured.
    """

    workload: Annotated[str, Field(max_length=_LONGEST_WORKLOAD)] = ""
    gpus: Annotated[list[_Index], Field(max_length=MAX_INDEX + 1)]
    suffered: _Slowdown
    caused: _Slowdown
    far: tuple[_SlowdownPercent, _SlowdownPercent] | None = None


class RecordedUtility(ApiModel):
    """What decided the utility of the placement besides the free GPUs.

    Attributes:
        weights: weights of communication, interference and fragmentation, in percent.
        best_length: least path length of the job on idle nodes of the cluster.
        longest: longest distance between two GPUs of a node of the cluster.
        largest_socket: GPUs of the largest socket of the cluster.
        worst_percent: highest known slowdown of any pair of workloads.
        minimum_percent: the utility that the job requested; None if it requested none.
        neighbours: jobs that ran on the node.
    """

    weights: tuple[UtilityPercent, UtilityPercent, UtilityPercent]
    best_length: _Length
    longest: _Count
    largest_socket: Annotated[int, Field(ge=1, le=MAX_INDEX + 1)]
    worst_percent: _SlowdownPercent = 0
    minimum_percent: UtilityPercent | None = None
    neighbours: Annotated[list[RecordedNeighbour], Field(max_length=MAX_INDEX + 1)] = []

    @classmethod
    def of(cls, around: Surroundings, minimum_percent: int | None) -> "RecordedUtility":
        """Return the record of surroundings; the inverse of :meth:`surroundings`."""
        return cls(
            weights=around.weights.percents,
            best_length=around.scale.best_length,
            longest=around.scale.longest,
            largest_socket=around.scale.largest_socket,
            worst_percent=around.worst_percent,
            minimum_percent=minimum_percent,
            neighbours=[_recorded(each) for each in around.neighbours],
        )

    def surroundings(self) -> Surroundings:
        """Return the surroundings of the job.

        Raises:
            UtilityError: if the weights contradict each other.
        """
        return Surroundings(
            CostScale(self.best_length, self.longest, self.largest_socket),
            tuple(map(_neighbour, self.neighbours)),
            self.worst_percent,
            UtilityWeights.of_percents(*self.weights),
        )


def _recorded(neighbour: NodeNeighbour) -> RecordedNeighbour:
    return RecordedNeighbour(
        workload=neighbour.workload[:_RECORDED_WORKLOAD],
        gpus=list(indices_of(neighbour.gpus)),
        suffered=(neighbour.suffered.percent, neighbour.suffered.source),
        caused=(neighbour.caused.percent, neighbour.caused.source),
        far=neighbour.far,
    )


def _neighbour(recorded: RecordedNeighbour) -> NodeNeighbour:
    return NodeNeighbour(
        recorded.workload,
        mask_of(map(GpuIndex, recorded.gpus)),
        suffered=PairSlowdown(*recorded.suffered),
        caused=PairSlowdown(*recorded.caused),
        far=recorded.far,
    )


class ReplayRecord(ApiModel):
    """The input of the decision, and the GPUs that were chosen.

    Attributes:
        fingerprint: fingerprint of the node topology.
        size: number of GPUs that the pod requested.
        free: indices of the GPUs that were free, ascending.
        usable: indices of the free GPUs that the pod was allowed to use, ascending; None if it was
            allowed to use all free GPUs.
        gpus: indices of the chosen GPUs, in rank order.
        edges: edges of a Custom pattern: rank, rank, weight.
        pattern_from: ``Annotation`` of the pod, ``Profile`` (the facts of its GPUProfile), or
            ``Default``.
        policy_from: ``Annotation`` of the pod, or ``Installation``.
        declared: bandwidth sensitivity that the pod declared; ``Auto`` if it declared none.
        fact: None if nothing was known of the workload's slowdown on slow links.
        utility: None for all policies except Utility.
        topology_manager_policy: kubelet's policy, if ``usable`` has only GPUs that kubelet accepts.
        nodes: None if unknown: another scheduler pod has become leader between filter and bind.
    """

    fingerprint: _Word
    size: Annotated[int, Field(ge=1, le=MAX_GPUS_PER_POD)]
    free: Annotated[list[_Index], Field(max_length=MAX_INDEX + 1)]
    usable: Annotated[list[_Index], Field(max_length=MAX_INDEX + 1)] | None = None
    gpus: Annotated[list[_Index], Field(min_length=1, max_length=MAX_GPUS_PER_POD)]
    edges: Annotated[list[tuple[_Rank, _Rank, _Weight]], Field(max_length=MAX_EDGES)] = []
    pattern_from: _Word
    policy_from: _Word
    declared: _Word
    fact: RecordedFact | None = None
    utility: RecordedUtility | None = None
    topology_manager_policy: _Word | None = None
    nodes: RecordedNodes | None = None


def parse_replay(placement: PlacementAnnotation) -> ReplayRecord | None:
    """Return the record of a placement; None if an older version of gputopo placed the pod.

    Raises:
        AnnotationError: on a record that cannot be parsed, for instance that of a newer version.
    """
    if placement.replay is None:
        return None
    try:
        return ReplayRecord.model_validate(placement.replay)
    except ValidationError as error:
        raise AnnotationError(
            f"{PLACEMENT_ANNOTATION}: {first_error(error, prefix='replay')}"
        ) from None
