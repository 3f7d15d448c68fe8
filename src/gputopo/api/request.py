"""The ``gputopo.io/*`` annotations with which a user requests GPUs for a pod."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import (
    EDGES_ANNOTATION,
    PATTERN_ANNOTATION,
    POLICY_ANNOTATION,
    SENSITIVITY_ANNOTATION,
)
from gputopo.api.v1alpha1 import Edge
from gputopo.patterns.model import PatternEdge, PatternKind
from gputopo.placement.model import PolicyName
from gputopo.runtime.messages import first_error, quoted
from gputopo.sensitivity.resolve import Sensitivity

_EDGES = TypeAdapter(list[Edge])
_Enum = TypeVar("_Enum", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class RequestAnnotations:
    """Values of the annotations that users set; a missing annotation gets its default value."""

    pattern: PatternKind = PatternKind.RING
    edges: tuple[PatternEdge, ...] = ()
    sensitivity: Sensitivity = Sensitivity.AUTO
    policy: PolicyName | None = None


def parse_request(annotations: Mapping[str, str]) -> RequestAnnotations:
    """Parse the annotations with which a user requests GPUs. Missing ones get default values.

    Raises:
        AnnotationError: on a value that is not allowed.
    """
    pattern = _choice(annotations, PATTERN_ANNOTATION, PatternKind) or PatternKind.RING
    return RequestAnnotations(
        pattern=pattern,
        edges=_edges(annotations, pattern),
        sensitivity=_choice(annotations, SENSITIVITY_ANNOTATION, Sensitivity) or Sensitivity.AUTO,
        policy=_choice(annotations, POLICY_ANNOTATION, PolicyName),
    )


def format_request(request: RequestAnnotations) -> dict[str, str]:
    """Return the annotations of a request; the inverse of :func:`parse_request`."""
    annotations = {
        PATTERN_ANNOTATION: request.pattern.value,
        SENSITIVITY_ANNOTATION: request.sensitivity.value,
    }
    if request.edges:
        edges = [{"from": edge.a, "to": edge.b, "weight": edge.weight} for edge in request.edges]
        annotations[EDGES_ANNOTATION] = json.dumps(edges, separators=(",", ":"))
    if request.policy is not None:
        annotations[POLICY_ANNOTATION] = request.policy.value
    return annotations


def _choice(annotations: Mapping[str, str], name: str, allowed: type[_Enum]) -> _Enum | None:
    value = annotations.get(name)
    if value is None:
        return None
    try:
        return allowed(value)
    except ValueError:
        values = ", ".join(allowed)
        raise AnnotationError(f"{name}: {quoted(value)} is not one of {values}") from None


def _edges(annotations: Mapping[str, str], pattern: PatternKind) -> tuple[PatternEdge, ...]:
    text = annotations.get(EDGES_ANNOTATION)
    if pattern is not PatternKind.CUSTOM:
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
