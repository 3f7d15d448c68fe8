"""Describes the request of a placed pod, and where each part came from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gputopo.api.annotations import PlacementAnnotation
from gputopo.api.names import (
    EDGES_ANNOTATION,
    ENSEMBLE_LABEL,
    MIN_UTILITY_ANNOTATION,
    PATTERN_ANNOTATION,
    POLICY_ANNOTATION,
    SENSITIVITY_ANNOTATION,
)
from gputopo.api.replay import ReplayRecord
from gputopo.patterns.declared import DeclaredPattern
from gputopo.runtime.messages import quoted
from gputopo.sensitivity.resolve import SENSITIVE_FROM_PERCENT, Sensitivity
from gputopo_explain.placed.recorded import RecordedPlacement
from gputopo_kube.pods import PodView
from gputopo_scheduling.record import FROM_ANNOTATION, FROM_INSTALLATION

UNKNOWN_SOURCE: Final = "unknown: an older version of gputopo did not record the source"
_BY_ENSEMBLE: Final = "the plan of this GPUEnsemble chose the node and the number of GPUs"
_NO_FACT: Final = "nothing is known of the workload"


@dataclass(frozen=True, slots=True)
class RequestPart:
    """One part of a request.

    Attributes:
        name: for instance ``pattern``.
        source: where the value came from.
        changed: why the value would be another one now; empty if the pod's annotation is unchanged.
    """

    name: str
    value: str
    source: str
    changed: str = ""


def request_parts(pod: PodView, recorded: RecordedPlacement, job: str) -> tuple[RequestPart, ...]:
    """Return the parts of the request.

    Args:
        pod: the pod.
        recorded: its annotations.
        job: name of its GPUJob, which has set the pod's annotations; empty if it has none.
    """
    figures, record = recorded.figures, recorded.record
    parts = [RequestPart("GPUs", *_gpus(recorded))] if recorded.gpus else []
    ensemble = dict(pod.labels).get(ENSEMBLE_LABEL)
    if ensemble:
        parts.append(RequestPart("ensemble", ensemble, _BY_ENSEMBLE))
    if figures is None:
        return tuple(parts)
    set_by = f" (set by GPUJob {job})" if job else ""
    return (*parts, *_choices(pod.annotations, figures, record, set_by))


def _gpus(recorded: RecordedPlacement) -> tuple[str, str]:
    containers = recorded.gpus.containers if recorded.gpus else {}
    counts = ", ".join(f"{name} {len(uuids)}" for name, uuids in containers.items())
    return str(len(recorded.uuids)), f"containers of the pod: {counts}"


def _choices(
    now: Mapping[str, str], figures: PlacementAnnotation, record: ReplayRecord | None, set_by: str
) -> Iterator[RequestPart]:
    pattern_from = record.pattern_from if record else None
    yield RequestPart(
        "pattern",
        figures.pattern,
        figures.pattern_fact or _source(pattern_from, PATTERN_ANNOTATION, set_by),
        _changed(now, PATTERN_ANNOTATION, figures.pattern, pattern_from),
    )
    if record and record.edges:
        text = " ".join(f"{a}-{b}:{weight}" for a, b, weight in record.edges)
        yield RequestPart("edges", text, f"annotation {EDGES_ANNOTATION}{set_by}")
    treated = Sensitivity.SENSITIVE if figures.sensitive else Sensitivity.INSENSITIVE
    yield RequestPart(
        "sensitivity",
        treated,
        _why_sensitive(figures, record, set_by),
        _changed(now, SENSITIVITY_ANNOTATION, record.declared if record else "", None),
    )
    policy_from = record.policy_from if record else None
    yield RequestPart(
        "policy",
        figures.policy,
        _source(policy_from, POLICY_ANNOTATION, set_by),
        _changed(now, POLICY_ANNOTATION, figures.policy, policy_from),
    )
    minimum = record.utility.minimum_percent if record and record.utility else None
    if minimum is not None:
        source = f"annotation {MIN_UTILITY_ANNOTATION}{set_by}"
        changed = _changed(now, MIN_UTILITY_ANNOTATION, str(minimum), FROM_ANNOTATION)
        yield RequestPart("least utility", f"{minimum} %", source, changed)
    if record and record.topology_manager_policy:
        gpus = " ".join(map(str, record.free if record.usable is None else record.usable))
        source = f"kubelet's topologyManagerPolicy {record.topology_manager_policy}"
        yield RequestPart("allowed GPUs", gpus, source)


def _source(source: str | None, annotation: str, set_by: str) -> str:
    if source is None:
        return UNKNOWN_SOURCE
    if source == FROM_ANNOTATION:
        return f"annotation {annotation}{set_by}"
    return "default of the installation" if source == FROM_INSTALLATION else "default"


def _changed(now: Mapping[str, str], annotation: str, before: str, source: str | None) -> str:
    """Return how the annotation differs from the recorded value; empty if this is unknown."""
    value = now.get(annotation)
    if value is None:
        removed = source == FROM_ANNOTATION
        return f"annotation {annotation} was removed after the placement" if removed else ""
    declares_nothing = value == DeclaredPattern.AUTO and source != FROM_ANNOTATION
    if not before or value == before or declares_nothing:
        return ""
    return f"annotation {annotation} is {quoted(value)} now: it was changed after the placement"


def _why_sensitive(figures: PlacementAnnotation, record: ReplayRecord | None, set_by: str) -> str:
    limit = f"the limit is {SENSITIVE_FROM_PERCENT} %"
    if figures.reason == "Declared":
        return f"annotation {SENSITIVITY_ANNOTATION}{set_by}"
    if figures.reason == "Profile":
        source = f", {record.fact.source}" if record and record.fact else ""
        return f"{figures.fact}{source}; {limit}"
    if figures.reason == "SingleGpu":
        return "one GPU uses no links"
    if figures.reason == "SensitivityUnknown":
        fact = record.fact if record else None
        known = (
            f"GPUProfile {fact.profile}: {fact.slowdown}: too uncertain, {limit}"
            if fact
            else _NO_FACT
        )
        return f"{known}: a job of several GPUs is assumed to be sensitive"
    return figures.reason
