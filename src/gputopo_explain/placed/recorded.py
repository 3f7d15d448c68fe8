"""Parses the annotations of a placed pod into the input of its decision.

The input is all that :func:`gputopo.placement.place.place` takes. A value that this version does
not know gives a reason in place of an error: a newer version of gputopo may have placed the pod.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from gputopo.api.annotations import (
    AnnotationError,
    GpusAnnotation,
    PlacementAnnotation,
    parse_placement,
)
from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.api.replay import ReplayRecord, parse_replay
from gputopo.api.shares import gpu_of
from gputopo.bandwidth.model import BandwidthModel
from gputopo.bandwidth.models import MODELS
from gputopo.patterns.model import Pattern, PatternEdge, PatternError, PatternKind, build
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.runtime.messages import quoted
from gputopo.sensitivity.resolve import Sensitivity, resolve_sensitivity
from gputopo.topology.model import GpuIndex, GpuMask, mask_of
from gputopo.utility.cost import UtilityError
from gputopo.utility.surroundings import Surroundings
from gputopo_kube.own_gpus import own_gpus
from gputopo_kube.pods import PodView

NO_RECORD = (
    "an older version of gputopo placed the pod and recorded no input: the GPUs that were free, "
    "where the parts of the request came from, and the other nodes are unknown"
)

_Member = TypeVar("_Member", bound=StrEnum)


class RecordError(Exception):
    """What was recorded contradicts itself; the message names the key and the value."""


class UnknownInputError(Exception):
    """The input of the decision is unknown; the message is the reason."""


@dataclass(frozen=True, slots=True)
class RecordedPlacement:
    """The annotations of a placed pod.

    Attributes:
        gpus: the chosen GPUs; None if the annotation is missing or invalid.
        figures: None if the annotation is missing or invalid.
        record: the input of the decision; None if it is unknown.
        unknown: why a part is None; empty if all parts are known.
    """

    gpus: GpusAnnotation | None = None
    figures: PlacementAnnotation | None = None
    record: ReplayRecord | None = None
    unknown: str = ""

    @property
    def devices(self) -> tuple[str, ...]:
        """The chosen GPUs in rank order, or the device ID of the share."""
        containers = self.gpus.containers.values() if self.gpus else ()
        return tuple(device for devices in containers for device in devices)

    @property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of the chosen GPUs, in rank order; of a share, the UUID of its GPU."""
        return tuple(map(gpu_of, self.devices))


@dataclass(frozen=True, slots=True)
class DecisionInput:
    """The input of one decision on one node.

    Attributes:
        model: the bandwidth model that was used; None for one GPU.
        chosen: the GPUs that were chosen, in rank order.
        surroundings: what ran on the node, for the policy Utility; None for other policies.
        usable: the free GPUs that the pod was allowed to use; None for all.
    """

    free: GpuMask
    request: PlacementRequest
    model: BandwidthModel | None
    chosen: tuple[GpuIndex, ...]
    surroundings: Surroundings | None = None
    usable: GpuMask | None = None


def recorded_placement(pod: PodView) -> RecordedPlacement:
    """Parse the annotations of a placed pod."""
    gpus = figures = None
    try:
        gpus = own_gpus(pod)
        figures = parse_placement(pod.annotations)
        record = None if figures is None else parse_replay(figures)
    except AnnotationError as error:
        return RecordedPlacement(gpus, figures, unknown=str(error))
    for annotation, name in ((gpus, GPUS_ANNOTATION), (figures, PLACEMENT_ANNOTATION)):
        if annotation is None:
            why = f"the pod has no annotation {name}: gputopo did not place the pod"
            return RecordedPlacement(gpus, figures, unknown=why)
    return RecordedPlacement(gpus, figures, record, unknown="" if record else NO_RECORD)


def decision_input(figures: PlacementAnnotation, record: ReplayRecord) -> DecisionInput:
    """Return the input of the decision.

    Raises:
        RecordError: the record contradicts itself.
        UnknownInputError: a name is unknown to this version of gputopo.
    """
    pattern = _pattern(_member(PatternKind, figures.pattern, "pattern"), record)
    request = PlacementRequest(
        pattern,
        figures.sensitive,
        _member(PolicyName, figures.policy, "policy"),
        sensitivity_reason=figures.reason,
        fact=figures.fact,
        pattern_fact=figures.pattern_fact,
        min_utility_percent=record.utility.minimum_percent if record.utility else None,
    )
    _require_sensitivity(figures, record)
    return DecisionInput(
        free=mask_of(map(GpuIndex, record.free)),
        request=request,
        model=_model(figures.model, record.size),
        chosen=tuple(map(GpuIndex, record.gpus)),
        surroundings=_surroundings(record),
        usable=None if record.usable is None else mask_of(map(GpuIndex, record.usable)),
    )


def _pattern(kind: PatternKind, record: ReplayRecord) -> Pattern:
    try:
        return build(kind, record.size, [PatternEdge(*edge) for edge in record.edges])
    except PatternError as error:
        raise RecordError(str(error)) from None


def _surroundings(record: ReplayRecord) -> Surroundings | None:
    try:
        return record.utility.surroundings() if record.utility else None
    except UtilityError as error:
        raise RecordError(f"utility: {error}") from None


def _member(members: type[_Member], text: str, field: str) -> _Member:
    try:
        return members(text)
    except ValueError:
        raise UnknownInputError(
            f"{field}: {quoted(text)} is unknown to this version of gputopo: "
            "use the version that placed the pod"
        ) from None


def _model(name: str | None, size: int) -> BandwidthModel | None:
    if name is None or size == 1:
        return None
    if name not in MODELS:
        raise UnknownInputError(
            f"model: {quoted(name)} is unknown to this version of gputopo: "
            "use the version that placed the pod"
        )
    return MODELS[name]


def _require_sensitivity(figures: PlacementAnnotation, record: ReplayRecord) -> None:
    """Derive the sensitivity again from what the pod declared and from the recorded fact."""
    declared = _member(Sensitivity, record.declared, "declared")
    known = record.fact.slowdown if record.fact else None
    resolved = resolve_sensitivity(
        declared, gpus=record.size, percent_range=(known.low, known.high) if known else None
    )
    if (resolved.sensitive, resolved.reason) != (figures.sensitive, figures.reason):
        again = Sensitivity.SENSITIVE if resolved.sensitive else Sensitivity.INSENSITIVE
        recorded = Sensitivity.SENSITIVE if figures.sensitive else Sensitivity.INSENSITIVE
        raise RecordError(
            f"sensitivity: recorded {recorded} ({figures.reason}); from the recorded declaration "
            f"and fact it follows {again} ({resolved.reason})"
        )
