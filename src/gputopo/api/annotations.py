"""The ``gputopo.io/*`` annotations of a pod: the user's request, and the extender's decision.

The parsers ignore unknown keys in the JSON values. So a component can read an annotation that a
newer version of gputopo wrote.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from gputopo.api.model import ApiModel, ProfileName, Uuid
from gputopo.api.names import (
    EDGES_ANNOTATION,
    FACTS_ANNOTATION,
    GPUS_ANNOTATION,
    PATTERN_ANNOTATION,
    PLACEMENT_ANNOTATION,
    POLICY_ANNOTATION,
    SENSITIVITY_ANNOTATION,
)
from gputopo.api.profile import LinkFact, Percent
from gputopo.api.v1alpha1 import Edge
from gputopo.errors import InvalidInputError
from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternEdge, PatternKind
from gputopo.placement.model import PolicyName
from gputopo.runtime.messages import first_error, quoted
from gputopo.sensitivity.resolve import ResolvedSensitivity, Sensitivity, resolve_sensitivity


class AnnotationError(InvalidInputError):
    """An annotation has a wrong value; the message names the annotation, value and remedy."""


@dataclass(frozen=True, slots=True)
class RequestAnnotations:
    """Values of the annotations that users set; a missing annotation gets its default value."""

    pattern: PatternKind = PatternKind.RING
    edges: tuple[PatternEdge, ...] = ()
    sensitivity: Sensitivity = Sensitivity.AUTO
    policy: PolicyName | None = None


class _JsonAnnotation(ApiModel):
    def dump(self) -> str:
        """Return the compact JSON text of the annotation."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


class GpusAnnotation(_JsonAnnotation):
    """``gputopo.io/gpus``: the exact GPUs of each container, in rank order.

    ``uid`` and ``node`` identify the pod for which the extender wrote the annotation. gputopo
    ignores copies of the annotation on other pods.
    """

    v: Literal[1] = 1
    uid: Annotated[str, Field(min_length=1)]
    node: Annotated[str, Field(min_length=1)]
    generation: Annotated[int, Field(ge=0)]
    containers: dict[str, Annotated[list[Uuid], Field(min_length=1)]]


class PlacementAnnotation(_JsonAnnotation):
    """``gputopo.io/placement``: why the extender chose the GPUs of a pod, and their bandwidths.

    Attributes:
        policy, pattern: any text, so that a component can parse the names of a newer gputopo.
        sensitive: whether the extender treated the pod as bandwidth-sensitive; ``reason`` is why.
        fact: the slowdown from which the extender derived ``sensitive``, as text. None if the
            extender did not use a GPUProfile.
        physical_mb_per_s: effective bandwidth of the chosen GPUs by the physical model.
        physical_worst_mb_per_s, physical_best_mb_per_s: lowest and highest effective bandwidth of
            all GPU sets of this size on the node, by the physical model.
        exact: false if another rank order of the chosen GPUs may have more aggregate bandwidth.
            ``aggregate_bound_mb_per_s`` is then an upper bound for all rank orders, else None.
        replay: what a repetition of the decision needs; :mod:`gputopo.api.replay` parses it. So a
            record in an unknown format does not make the other fields unreadable. None if an older
            version of gputopo placed the pod.
    """

    v: Literal[1] = 1
    policy: str
    pattern: str
    sensitive: bool
    reason: str
    fact: Annotated[str | None, Field(max_length=512)] = None
    model: str | None = None
    effective_mb_per_s: Annotated[int | None, Field(alias="effectiveMBps")] = None
    physical_mb_per_s: Annotated[int | None, Field(alias="physicalMBps")] = None
    physical_worst_mb_per_s: Annotated[int | None, Field(alias="physicalWorstMBps")] = None
    physical_best_mb_per_s: Annotated[int | None, Field(alias="physicalBestMBps")] = None
    aggregate_mb_per_s: Annotated[int, Field(alias="aggregateMBps")]
    preserved_mb_per_s: Annotated[int, Field(alias="preservedMBps")]
    exact: bool = True
    aggregate_bound_mb_per_s: Annotated[int | None, Field(alias="aggregateBoundMBps")] = None
    replay: Any = None


_MOST_SAMPLES = 10**6


class KnownSlowdown(ApiModel):
    """How much slower a workload runs on slow links, as in :class:`gputopo.api.profile.LinkFact`.

    Attributes:
        samples: number of measurements; 0 if the user declared the slowdown.
    """

    percent: Percent
    low: Percent
    high: Percent
    samples: Annotated[int, Field(ge=0, le=_MOST_SAMPLES)] = 0

    @classmethod
    def measured(cls, fact: LinkFact) -> Self:
        """Return the slowdown of a fact about links."""
        return cls(
            percent=fact.percent,
            low=fact.low_percent,
            high=fact.high_percent,
            samples=fact.samples,
        )

    def __str__(self) -> str:
        if not self.samples:
            return f"{self.percent} % slower on the worst links, declared"
        interval = f"{self.percent} % ({self.low}..{self.high})"
        return f"{interval} slower on the worst links, {self.samples} samples"


class FactsAnnotation(_JsonAnnotation):
    """``gputopo.io/facts``: what is known of the pod's workload.

    Attributes:
        profile: name of the GPUProfile.
        source: ``Declared`` by the user in ``GPUProfile.spec``, or ``Measured``.
        links: slowdown on slow links, by the number of GPUs of a job. Key 0 is any number of GPUs.
    """

    v: Literal[1] = 1
    profile: ProfileName
    source: str
    links: Annotated[dict[int, KnownSlowdown], Field(max_length=MAX_GPUS_PER_POD + 1)] = {}

    @classmethod
    def declared(cls, profile: str, percent: int) -> Self:
        """Return the annotation for a slowdown that the user declared in a GPUProfile."""
        slowdown = KnownSlowdown(percent=percent, low=percent, high=percent)
        return cls(profile=profile, source="Declared", links={0: slowdown})

    def slowdown(self, gpus: int) -> KnownSlowdown | None:
        """Return the slowdown of a job with this number of GPUs, or None if it is not known."""
        return self.links.get(gpus, self.links.get(0))

    def resolve(self, declared: Sensitivity, gpus: int) -> tuple[ResolvedSensitivity, str | None]:
        """Return the sensitivity of a pod and, as text, the slowdown that decided it.

        ``declared`` is from the pod's own annotation. The text is None if ``declared`` is not
        ``Auto``, or if the slowdown is unknown or too uncertain to decide.
        Example: ``GPUProfile bert: 45 % (40..50) slower on the worst links, 8 samples``
        """
        known = self.slowdown(gpus)
        percent_range = None if known is None else (known.low, known.high)
        resolved = resolve_sensitivity(declared, gpus=gpus, percent_range=percent_range)
        decisive = known is not None and resolved.reason == "Profile"
        return resolved, f"GPUProfile {self.profile}: {known}" if decisive else None


_EDGES = TypeAdapter(list[Edge])
_Enum = TypeVar("_Enum", bound=StrEnum)
_Parsed = TypeVar("_Parsed", bound=_JsonAnnotation)


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


def parse_gpus(annotations: Mapping[str, str]) -> GpusAnnotation | None:
    """Return the value of ``gputopo.io/gpus``, or None if the pod has no such annotation.

    Raises:
        AnnotationError: on a value that cannot be parsed.
    """
    return _parse(annotations, GPUS_ANNOTATION, GpusAnnotation)


def parse_placement(annotations: Mapping[str, str]) -> PlacementAnnotation | None:
    """Return the value of ``gputopo.io/placement``, or None if the pod has no such annotation.

    Raises:
        AnnotationError: on a value that cannot be parsed.
    """
    return _parse(annotations, PLACEMENT_ANNOTATION, PlacementAnnotation)


def parse_facts(annotations: Mapping[str, str]) -> FactsAnnotation | None:
    """Return the value of ``gputopo.io/facts``, or None if the pod has no such annotation.

    Raises:
        AnnotationError: on a value that cannot be parsed.
    """
    return _parse(annotations, FACTS_ANNOTATION, FactsAnnotation)


def parse_known_facts(annotations: Mapping[str, str]) -> FactsAnnotation | None:
    """Return what is known of the pod's workload; None if nothing is known.

    Facts in another format are ignored. A newer operator may have written them, and a pod must not
    wait until the extender is upgraded too.
    """
    try:
        return parse_facts(annotations)
    except AnnotationError:
        return None


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


def _parse(annotations: Mapping[str, str], name: str, model: type[_Parsed]) -> _Parsed | None:
    text = annotations.get(name)
    if text is None:
        return None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise AnnotationError(f"{name}: {first_error(error)}") from None
