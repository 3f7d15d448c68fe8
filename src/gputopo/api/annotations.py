"""The ``gputopo.io/*`` annotations of a pod: what users say, and what the extender answers.

Wrong values are refused with the annotation's name, the value and what is allowed.
Unknown keys inside the JSON values are ignored, so that a roll-back works.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from gputopo.api.names import (
    EDGES_ANNOTATION,
    GPUS_ANNOTATION,
    PATTERN_ANNOTATION,
    PLACEMENT_ANNOTATION,
    POLICY_ANNOTATION,
    SENSITIVITY_ANNOTATION,
)
from gputopo.api.v1alpha1 import Edge, Uuid
from gputopo.errors import InvalidInputError
from gputopo.patterns.model import PatternEdge, PatternKind
from gputopo.placement.model import PolicyName
from gputopo.runtime.messages import first_error, quoted
from gputopo.sensitivity.resolve import Sensitivity


class AnnotationError(InvalidInputError):
    """An annotation with a wrong value; the message names it, the value and what is allowed."""


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a pod's annotations ask for; absent annotations have their defaults."""

    pattern: PatternKind = PatternKind.RING
    edges: tuple[PatternEdge, ...] = ()
    sensitivity: Sensitivity = Sensitivity.AUTO
    policy: PolicyName | None = None


class _Document(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )

    def dump(self) -> str:
        """Return the compact JSON text of the annotation."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


class GpusAnnotation(_Document):
    """``gputopo.io/gpus``: the exact GPUs of each container, in rank order.

    ``uid`` and ``node`` are the pod's own: elsewhere the annotation is worthless.
    """

    v: Literal[1] = 1
    uid: Annotated[str, Field(min_length=1)]
    node: Annotated[str, Field(min_length=1)]
    generation: Annotated[int, Field(ge=0)]
    containers: dict[str, Annotated[list[Uuid], Field(min_length=1)]]


class PlacementAnnotation(_Document):
    """``gputopo.io/placement``: the figures of the decision and why it was taken.

    ``exact`` is false where the search for the best embedding ran out of its budget; no
    embedding into the chosen GPUs has more than ``aggregate_bound_mbps`` then. ``policy`` and
    ``pattern`` are read as any words: a reader older than a word shall still get the figures.
    """

    v: Literal[1] = 1
    policy: str
    pattern: str
    sensitive: bool
    reason: str
    model: str | None = None
    effective_mbps: Annotated[int | None, Field(alias="effectiveMBps")] = None
    aggregate_mbps: Annotated[int, Field(alias="aggregateMBps")]
    preserved_mbps: Annotated[int, Field(alias="preservedMBps")]
    exact: bool = True
    aggregate_bound_mbps: Annotated[int | None, Field(alias="aggregateBoundMBps")] = None


_EDGES = TypeAdapter(list[Edge])
_Word = TypeVar("_Word", bound=StrEnum)
_Text = TypeVar("_Text", bound=_Document)


def parse_request(annotations: Mapping[str, str]) -> PodRequest:
    """Return what the annotations ask for.

    Raises:
        AnnotationError: on a value that is not allowed.
    """
    pattern = _word(annotations, PATTERN_ANNOTATION, PatternKind) or PatternKind.RING
    return PodRequest(
        pattern=pattern,
        edges=_edges(annotations, pattern),
        sensitivity=_word(annotations, SENSITIVITY_ANNOTATION, Sensitivity) or Sensitivity.AUTO,
        policy=_word(annotations, POLICY_ANNOTATION, PolicyName),
    )


def format_request(request: PodRequest) -> dict[str, str]:
    """Return the annotations that say what ``request`` says; the inverse of the parser."""
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


def parse_gpus(annotations: Mapping[str, str]) -> GpusAnnotation | None:
    """Return the exact GPUs of the pod, None where the extender has not spoken.

    Raises:
        AnnotationError: on a value that cannot be read.
    """
    return _document(annotations, GPUS_ANNOTATION, GpusAnnotation)


def parse_placement(annotations: Mapping[str, str]) -> PlacementAnnotation | None:
    """Return the figures of the decision, None where the extender has not spoken.

    Raises:
        AnnotationError: on a value that cannot be read.
    """
    return _document(annotations, PLACEMENT_ANNOTATION, PlacementAnnotation)


def _word(annotations: Mapping[str, str], name: str, words: type[_Word]) -> _Word | None:
    value = annotations.get(name)
    if value is None:
        return None
    try:
        return words(value)
    except ValueError:
        allowed = ", ".join(words)
        raise AnnotationError(f"{name}: {quoted(value)} is not one of {allowed}") from None


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
        raise AnnotationError(f"{EDGES_ANNOTATION}: [] has no edge")
    return edges


def _document(annotations: Mapping[str, str], name: str, model: type[_Text]) -> _Text | None:
    text = annotations.get(name)
    if text is None:
        return None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise AnnotationError(f"{name}: {first_error(error)}") from None
