"""The ``gputopo.io/*`` annotations with which a user requests GPUs for a pod."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from gputopo.api.annotations import AnnotationError
from gputopo.api.avoid import AvoidRule, avoid_rules, format_avoid, parse_avoid
from gputopo.api.names import (
    EDGES_ANNOTATION,
    MIN_UTILITY_ANNOTATION,
    PATTERN_ANNOTATION,
    POLICY_ANNOTATION,
    SENSITIVITY_ANNOTATION,
)
from gputopo.api.v1alpha1 import Edge, GPUJobSpec
from gputopo.patterns.declared import DeclaredPattern
from gputopo.patterns.model import PatternEdge
from gputopo.placement.model import PolicyName
from gputopo.runtime.messages import first_error, quoted
from gputopo.sensitivity.resolve import Sensitivity

_EDGES = TypeAdapter(list[Edge])
_PERCENT: Final = re.compile(r"[0-9]{1,3}")
_MOST_PERCENT: Final = 100
_Enum = TypeVar("_Enum", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class RequestAnnotations:
    """Values of the annotations that users set; a missing annotation gets its default value.

    Attributes:
        min_utility_percent: least utility for the job with which it accepts GPUs, 0..100 percent;
            None if it accepts any. Only the policy Utility has it.
    """

    pattern: DeclaredPattern = DeclaredPattern.AUTO
    edges: tuple[PatternEdge, ...] = ()
    sensitivity: Sensitivity = Sensitivity.AUTO
    policy: PolicyName | None = None
    min_utility_percent: int | None = None
    avoid: tuple[AvoidRule, ...] = ()

    @classmethod
    def of_job(cls, spec: GPUJobSpec) -> Self:
        """Return the request of a GPUJob for each of its pods."""
        return cls(
            pattern=spec.communication.pattern or DeclaredPattern.AUTO,
            edges=tuple(edge.to_pattern_edge() for edge in spec.communication.edges),
            sensitivity=spec.communication.bandwidth_sensitivity,
            policy=spec.placement.policy,
            min_utility_percent=spec.placement.min_utility_percent,
            avoid=avoid_rules(spec.placement.avoid),
        )


def parse_request(annotations: Mapping[str, str]) -> RequestAnnotations:
    """Parse the annotations with which a user requests GPUs. Missing ones get default values.

    Raises:
        AnnotationError: on a value that is not allowed.
    """
    pattern = _choice(annotations, PATTERN_ANNOTATION, DeclaredPattern) or DeclaredPattern.AUTO
    policy = _choice(annotations, POLICY_ANNOTATION, PolicyName)
    return RequestAnnotations(
        pattern=pattern,
        edges=_edges(annotations, pattern),
        sensitivity=_choice(annotations, SENSITIVITY_ANNOTATION, Sensitivity) or Sensitivity.AUTO,
        policy=policy,
        min_utility_percent=_min_utility(annotations, policy),
        avoid=parse_avoid(annotations),
    )


def format_request(request: RequestAnnotations) -> dict[str, str]:
    """Return the annotations of a request; the inverse of :func:`parse_request`.

    The pattern Auto is left out: it is the default, and an older extender does not know it.
    """
    annotations = {SENSITIVITY_ANNOTATION: request.sensitivity.value}
    if request.pattern is not DeclaredPattern.AUTO:
        annotations[PATTERN_ANNOTATION] = request.pattern.value
    if request.edges:
        edges = [{"from": edge.a, "to": edge.b, "weight": edge.weight} for edge in request.edges]
        annotations[EDGES_ANNOTATION] = json.dumps(edges, separators=(",", ":"))
    if request.policy is not None:
        annotations[POLICY_ANNOTATION] = request.policy.value
    if request.min_utility_percent is not None:
        annotations[MIN_UTILITY_ANNOTATION] = str(request.min_utility_percent)
    return annotations | format_avoid(request.avoid)


def _choice(annotations: Mapping[str, str], name: str, allowed: type[_Enum]) -> _Enum | None:
    value = annotations.get(name)
    if value is None:
        return None
    try:
        return allowed(value)
    except ValueError:
        values = ", ".join(allowed)
        raise AnnotationError(f"{name}: {quoted(value)} is not one of {values}") from None


def _edges(annotations: Mapping[str, str], pattern: DeclaredPattern) -> tuple[PatternEdge, ...]:
    text = annotations.get(EDGES_ANNOTATION)
    if pattern is not DeclaredPattern.CUSTOM:
        if text is not None:
            raise AnnotationError(
                f"{EDGES_ANNOTATION}: allowed with {PATTERN_ANNOTATION}=Custom only, not {pattern}"
            )
        return ()
    if text is None:
        raise AnnotationError(f"{EDGES_ANNOTATION}: required with {PATTERN_ANNOTATION}=Custom")
    try:
        edges = tuple(edge.to_pattern_edge() for edge in _EDGES.validate_json(text, strict=True))
    except ValidationError as error:
        raise AnnotationError(
            f"{EDGES_ANNOTATION}: {first_error(error)}; allowed is a JSON list of "
            '{"from": rank, "to": rank, "weight": 1..1000}'
        ) from None
    if not edges:
        raise AnnotationError(f"{EDGES_ANNOTATION}: [] has no edge; add at least one edge")
    return edges


def _min_utility(annotations: Mapping[str, str], policy: PolicyName | None) -> int | None:
    text = annotations.get(MIN_UTILITY_ANNOTATION)
    if text is None:
        return None
    if not _PERCENT.fullmatch(text) or int(text) > _MOST_PERCENT:
        raise AnnotationError(
            f"{MIN_UTILITY_ANNOTATION}: {quoted(text)} is not a whole number from 0 to 100"
        )
    if policy is not None:
        require_utility(policy)
    return int(text)


def require_utility(policy: PolicyName) -> None:
    """Reject a least utility with another policy than Utility.

    Raises:
        AnnotationError: if the policy is another one.
    """
    if policy is not PolicyName.UTILITY:
        raise AnnotationError(
            f"{MIN_UTILITY_ANNOTATION}: allowed with {POLICY_ANNOTATION}=Utility only, not {policy}"
        )
