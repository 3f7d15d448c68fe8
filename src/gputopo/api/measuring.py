"""The annotations with which a pod requests measurements of its training speed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast, get_args

from pydantic import TypeAdapter, ValidationError

from gputopo.api.annotations import AnnotationError
from gputopo.api.model import ProfileName
from gputopo.api.names import (
    PROFILE_ANNOTATION,
    PROFILING_ANNOTATION,
    PROFILING_SECONDS_ANNOTATION,
    STEPS_METRICS_ANNOTATION,
    STEPS_SOURCE_ANNOTATION,
)
from gputopo.api.profile import ProfilingTarget, StepsSource
from gputopo.runtime.messages import quoted

DEFAULT_PROFILING_SECONDS: Final = 600
MAX_PROFILING_SECONDS: Final = 7 * 86_400
"""The limit of the API; see ``ProfilingSeconds``."""

_PROFILE: Final[TypeAdapter[str]] = TypeAdapter(ProfileName)
_METRICS: Final = re.compile(r"([0-9]{1,5})(/[!-~]{0,255}) ([a-zA-Z_:][a-zA-Z0-9_:]{0,127})")
_MAX_PORT: Final = 65_535
_LONGEST_TARGETS: Final = 256


@dataclass(frozen=True, slots=True)
class MetricsEndpoint:
    """A counter of training steps at a port of the pod, in Prometheus' text format."""

    port: int
    path: str
    metric: str


@dataclass(frozen=True, slots=True)
class MeasuringRequest:
    """The measurements that a pod requests with its annotations.

    Attributes:
        profile: GPUProfile of the workload, in the pod's namespace. If it is None, the throughput
            is shown, but no sample is stored.
        metrics: the endpoint if ``source`` is ``Metrics``, else None.
        targets: resources that gputopo varies to measure their effect: CPUs, links or both.
        profiling_seconds: time limit for the measurement of ``targets``.
    """

    profile: str | None = None
    source: StepsSource = "SDK"
    metrics: MetricsEndpoint | None = None
    targets: tuple[ProfilingTarget, ...] = ()
    profiling_seconds: int = DEFAULT_PROFILING_SECONDS


def parse_measuring(annotations: Mapping[str, str]) -> MeasuringRequest:
    """Return the measurements that a pod requests. Missing annotations get default values.

    Raises:
        AnnotationError: on a value that is not allowed.
    """
    source = _source(annotations)
    return MeasuringRequest(
        profile=parse_profile_name(annotations),
        source=source,
        metrics=_metrics(annotations, source),
        targets=_targets(annotations),
        profiling_seconds=_seconds(annotations),
    )


def format_measuring(request: MeasuringRequest) -> dict[str, str]:
    """Return the annotations of a request; the inverse of :func:`parse_measuring`."""
    annotations: dict[str, str] = {}
    if request.profile is not None:
        annotations[PROFILE_ANNOTATION] = request.profile
    if request.source != "SDK":
        annotations[STEPS_SOURCE_ANNOTATION] = request.source
    if (endpoint := request.metrics) is not None:
        annotations[STEPS_METRICS_ANNOTATION] = f"{endpoint.port}{endpoint.path} {endpoint.metric}"
    if request.targets:
        annotations[PROFILING_ANNOTATION] = ",".join(request.targets)
        annotations[PROFILING_SECONDS_ANNOTATION] = str(request.profiling_seconds)
    return annotations


def parse_metrics_endpoint(text: str, field: str = STEPS_METRICS_ANNOTATION) -> MetricsEndpoint:
    """Parse ``PORT/PATH METRIC``. Error messages begin with ``field``, the name of the input.

    Raises:
        AnnotationError: the text does not have this form.
    """
    match = _METRICS.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= _MAX_PORT:
        raise AnnotationError(
            f"{field}: {quoted(text)} is not PORT/PATH METRIC; for example "
            "'9090/metrics training_steps_total'"
        )
    return MetricsEndpoint(int(match[1]), match[2], match[3])


def parse_profile_name(annotations: Mapping[str, str]) -> str | None:
    """Return the name of the pod's GPUProfile, or None if the pod names none.

    Raises:
        AnnotationError: the value is not the name of an object.
    """
    text = annotations.get(PROFILE_ANNOTATION)
    if text is None:
        return None
    try:
        return _PROFILE.validate_python(text)
    except ValidationError:
        raise AnnotationError(
            f"{PROFILE_ANNOTATION}: {quoted(text)} is not the name of a GPUProfile; use lower "
            "case letters, digits, '-' and '.', at most 253 characters"
        ) from None


def _source(annotations: Mapping[str, str]) -> StepsSource:
    text = annotations.get(STEPS_SOURCE_ANNOTATION, "SDK")
    if text not in (allowed := get_args(StepsSource)):
        raise AnnotationError(
            f"{STEPS_SOURCE_ANNOTATION}: {quoted(text)} is not one of {', '.join(allowed)}"
        )
    return cast("StepsSource", text)


def _metrics(annotations: Mapping[str, str], source: StepsSource) -> MetricsEndpoint | None:
    text = annotations.get(STEPS_METRICS_ANNOTATION)
    if source == "Metrics" and text is None:
        raise AnnotationError(
            f"{STEPS_METRICS_ANNOTATION}: required with {STEPS_SOURCE_ANNOTATION}=Metrics; for "
            "example '9090/metrics training_steps_total'"
        )
    if source != "Metrics" and text is not None:
        raise AnnotationError(
            f"{STEPS_METRICS_ANNOTATION}: allowed with {STEPS_SOURCE_ANNOTATION}=Metrics only, "
            f"not {source}"
        )
    return None if text is None else parse_metrics_endpoint(text)


def _targets(annotations: Mapping[str, str]) -> tuple[ProfilingTarget, ...]:
    text = annotations.get(PROFILING_ANNOTATION, "")
    if len(text) > _LONGEST_TARGETS:  # the agent parses the annotation every second
        raise AnnotationError(
            f"{PROFILING_ANNOTATION}: {quoted(text)} has {len(text)} characters; at most"
            f" {_LONGEST_TARGETS} are allowed"
        )
    targets = tuple(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    allowed = get_args(ProfilingTarget)
    for target in targets:
        if target not in allowed:
            raise AnnotationError(
                f"{PROFILING_ANNOTATION}: {quoted(target)} is not one of {', '.join(allowed)}"
            )
    return cast("tuple[ProfilingTarget, ...]", targets)


def _seconds(annotations: Mapping[str, str]) -> int:
    text = annotations.get(PROFILING_SECONDS_ANNOTATION)
    if text is None:
        return DEFAULT_PROFILING_SECONDS
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_PROFILING_SECONDS))
    if not digits or not 1 <= int(text) <= MAX_PROFILING_SECONDS:
        raise AnnotationError(
            f"{PROFILING_SECONDS_ANNOTATION}: {quoted(text)} is not a whole number of seconds from "
            f"1 to {MAX_PROFILING_SECONDS}"
        )
    return int(text)
