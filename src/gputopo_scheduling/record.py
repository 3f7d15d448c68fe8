"""Makes the annotation ``gputopo.io/placement`` of a decision: its figures and its input.

The extender writes the annotation. The explanation of a placement makes it again from the recorded
input, and compares both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gputopo.api.annotations import (
    LONGEST_SHARING_REASON,
    PlacementAnnotation,
    SharingFigures,
)
from gputopo.api.known_facts import FactsAnnotation, parse_known_facts
from gputopo.api.names import POLICY_ANNOTATION
from gputopo.api.replay import RecordedFact, RecordedNodes, RecordedUtility, ReplayRecord
from gputopo.api.request import parse_request
from gputopo.api.utility import UtilityFigures
from gputopo.bandwidth.effective import effective_table
from gputopo.bandwidth.models import PHYSICAL
from gputopo.patterns.declared import DeclaredPattern
from gputopo.patterns.model import PatternKind
from gputopo.placement.model import Match, PlacementRequest
from gputopo.sensitivity.resolve import Sensitivity
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo.utility.surroundings import Surroundings
from gputopo_scheduling.share_options import ChosenShare

FROM_ANNOTATION: Final = "Annotation"
FROM_DEFAULT: Final = "Default"
FROM_PROFILE: Final = "Profile"
FROM_INSTALLATION: Final = "Installation"


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Where the parts of a pod's request came from; see :class:`ReplayRecord`.

    If the pod declares no pattern, ``pattern_from`` is ``Default``; the request itself has the fact
    that was used instead.
    """

    pattern_from: str
    policy_from: str
    declared: Sensitivity
    facts: FactsAnnotation | None


def request_origin(annotations: Mapping[str, str]) -> RequestOrigin:
    """Return where the parts of a request came from.

    Raises:
        AnnotationError: on a value that is not allowed.
    """
    request, facts = parse_request(annotations), parse_known_facts(annotations)
    declares_pattern = request.pattern is not DeclaredPattern.AUTO
    return RequestOrigin(
        FROM_ANNOTATION if declares_pattern else FROM_DEFAULT,
        FROM_ANNOTATION if POLICY_ANNOTATION in annotations else FROM_INSTALLATION,
        request.sensitivity,
        facts,
    )


def placement_figures(
    request: PlacementRequest,
    match: Match,
    topology: NodeTopology,
    shared: ChosenShare | None = None,
) -> PlacementAnnotation:
    """Return the annotation of a match on a node, without the record for a replay."""
    worst_and_best = effective_table(topology, request.pattern, PHYSICAL).worst_and_best
    return PlacementAnnotation(
        policy=request.policy,
        pattern=request.pattern.kind,
        sensitive=request.sensitive,
        reason=request.sensitivity_reason,
        fact=request.fact,
        pattern_fact=request.pattern_fact,
        model=match.model,
        effective_mb_per_s=match.effective_mb_per_s,
        physical_mb_per_s=match.common_mb_per_s,
        physical_worst_mb_per_s=worst_and_best[0] if worst_and_best else None,
        physical_best_mb_per_s=worst_and_best[1] if worst_and_best else None,
        aggregate_mb_per_s=match.aggregate_mb_per_s,
        preserved_mb_per_s=match.preserved_mb_per_s,
        exact=match.exact,
        aggregate_bound_mb_per_s=None if match.exact else match.bound_mb_per_s,
        utility=None if match.utility is None else UtilityFigures.of(match.utility),
        sharing=None if shared is None else _sharing_figures(shared),
    )


def _sharing_figures(shared: ChosenShare) -> SharingFigures:
    option = shared.option
    if option is None or option.decision is None:
        return SharingFigures(share=shared.share)
    decision = option.decision
    return SharingFigures(
        share=shared.share,
        beside=list(option.beside),
        summed_speed_permille=decision.gain and round(1000 * decision.gain.summed_speed),
        slowdown_percents=[round(each.percent) for each in decision.slowdowns],
        reason=decision.text[:LONGEST_SHARING_REASON],
    )


def replay_record(
    request: PlacementRequest,
    origin: RequestOrigin,
    match: Match,
    topology: NodeTopology,
    free: GpuMask,
    nodes: RecordedNodes | None,
    around: Surroundings | None = None,
    usable: GpuMask | None = None,
) -> ReplayRecord:
    """Return the input of a decision, and the GPUs that were chosen.

    Args:
        request: the request of the pod.
        origin: where the parts of the request came from.
        match: the chosen GPUs.
        topology: topology of the node.
        free: the GPUs that were free.
        nodes: how the node compared with the other nodes; None if unknown.
        around: what ran on the node, for the policy Utility.
        usable: the free GPUs that the pod was allowed to use; None for all.
    """
    custom = request.pattern.kind is PatternKind.CUSTOM
    facts = origin.facts
    return ReplayRecord.model_construct(
        fingerprint=topology.fingerprint,
        size=request.size,
        free=list(indices_of(free)),
        usable=None if usable is None else list(indices_of(usable)),
        gpus=list(match.gpus),
        edges=[(a, b, weight) for a, b, weight in request.pattern.edges] if custom else [],
        pattern_from=origin.pattern_from if request.pattern_fact is None else FROM_PROFILE,
        policy_from=origin.policy_from,
        declared=origin.declared.value,
        fact=None if facts is None else RecordedFact.of(facts, request.size),
        utility=None if around is None else RecordedUtility.of(around, request.min_utility_percent),
        nodes=nodes,
    )


def placement_annotation(figures: PlacementAnnotation, record: ReplayRecord) -> str:
    """Return the text of the annotation. Empty lists and unknown parts are left out."""
    replay = record.model_dump(by_alias=True, exclude_defaults=True)
    return figures.model_copy(update={"replay": replay}).dump()
