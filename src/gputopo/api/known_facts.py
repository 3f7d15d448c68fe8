"""The annotation ``gputopo.io/facts``: what is known of the workload of a pod."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field

from gputopo.api.annotations import AnnotationError, JsonAnnotation, parse_json
from gputopo.api.model import ApiModel, ProfileName
from gputopo.api.names import FACTS_ANNOTATION
from gputopo.api.profile import LinkFact, Percent
from gputopo.patterns.declared import DeclaredPattern, ResolvedPattern, resolve_pattern
from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternKind
from gputopo.sensitivity.resolve import ResolvedSensitivity, Sensitivity, resolve_sensitivity

_MOST_SAMPLES = 10**6

FROM_COUNTERS = "Counters"
"""Source of a slowdown that is only limited, by the bytes that hardware counters showed."""


class KnownSlowdown(ApiModel):
    """How much slower a workload runs on slow links, as in :class:`gputopo.api.profile.LinkFact`.

    Attributes:
        samples: number of measurements; 0 if the user declared the slowdown.
        source: ``Counters`` if only an upper bound is known, ``high``, from the bytes of a step.
            None if the source is that of the whole annotation.
    """

    percent: Percent
    low: Percent
    high: Percent
    samples: Annotated[int, Field(ge=0, le=_MOST_SAMPLES)] = 0
    source: Annotated[str, Field(max_length=64)] | None = None

    @classmethod
    def measured(cls, fact: LinkFact) -> Self:
        """Return the slowdown of a fact about links."""
        return cls(
            percent=fact.percent,
            low=fact.low_percent,
            high=fact.high_percent,
            samples=fact.samples,
        )

    @classmethod
    def by_counters(cls, high: int, samples: int) -> Self:
        """Return an upper bound of the slowdown, from hardware counters.

        Also ``percent`` is the upper bound, so no reader assumes less.
        """
        return cls(percent=high, low=0, high=high, samples=samples, source=FROM_COUNTERS)

    def __str__(self) -> str:
        if self.source == FROM_COUNTERS:
            return (
                f"at most {self.high} % slower on the worst links by counters, "
                f"{self.samples} samples"
            )
        if not self.samples:
            return f"{self.percent} % slower on the worst links, declared"
        interval = f"{self.percent} % ({self.low}..{self.high})"
        return f"{interval} slower on the worst links, {self.samples} samples"


class KnownPattern(ApiModel):
    """The communication pattern that hardware counters showed of a workload.

    Attributes:
        kind: any text, so that a component can parse the names of a newer gputopo.
        confidence: share of the windows that showed ``kind``, in thousandths.
        windows: number of windows with traffic that were judged.
    """

    kind: Annotated[str, Field(max_length=32)]
    confidence: Annotated[int, Field(ge=0, le=1000)]
    windows: Annotated[int, Field(ge=0, le=2**53 - 1)]

    @property
    def pattern(self) -> PatternKind | None:
        """The pattern; None if this version does not know it, or if it needs a list of edges."""
        known = self.kind in list(PatternKind) and self.kind != PatternKind.CUSTOM
        return PatternKind(self.kind) if known else None

    def __str__(self) -> str:
        return f"{self.kind}, seen in {self.confidence // 10} % of {self.windows} windows"


class FactsAnnotation(JsonAnnotation):
    """``gputopo.io/facts``: what is known of the pod's workload.

    Attributes:
        profile: name of the GPUProfile.
        source: source of the slowdowns: ``Declared`` by the user in ``GPUProfile.spec``,
            ``Measured`` on different links, or ``Counters`` if all are upper bounds by counters.
        links: slowdown on slow links, by the number of GPUs of a job. Key 0 is any number of GPUs.
        patterns: communication pattern, by the number of GPUs of a job.
    """

    v: Literal[1] = 1
    profile: ProfileName
    source: str
    links: Annotated[dict[int, KnownSlowdown], Field(max_length=MAX_GPUS_PER_POD + 1)] = {}
    patterns: Annotated[dict[int, KnownPattern], Field(max_length=MAX_GPUS_PER_POD)] = {}

    @classmethod
    def declared(
        cls, profile: str, percent: int, patterns: Mapping[int, KnownPattern] = MappingProxyType({})
    ) -> Self:
        """Return the annotation for a slowdown that the user declared in a GPUProfile."""
        slowdown = KnownSlowdown(percent=percent, low=percent, high=percent)
        return cls(profile=profile, source="Declared", links={0: slowdown}, patterns=dict(patterns))

    def dump(self) -> str:
        """Return the compact JSON text of the annotation. Without patterns, the key is left out."""
        unused = None if self.patterns else {"patterns"}
        return self.model_dump_json(by_alias=True, exclude_none=True, exclude=unused)

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

    def resolve_pattern(
        self, declared: DeclaredPattern, gpus: int
    ) -> tuple[ResolvedPattern, str | None]:
        """Return the pattern of a pod and, as text, the fact that decided it.

        The text is None if the pod declares a pattern, or if the pattern is unknown.
        Example: ``GPUProfile bert: AllToAll, seen in 96 % of 40 windows``
        """
        known = self.patterns.get(gpus)
        resolved = resolve_pattern(declared, known.pattern if known else None)
        decisive = resolved.reason == "Profile"
        return resolved, f"GPUProfile {self.profile}: {known}" if decisive else None


def parse_facts(annotations: Mapping[str, str]) -> FactsAnnotation | None:
    """Return the value of ``gputopo.io/facts``, or None if the pod has no such annotation.

    Raises:
        AnnotationError: on a value that cannot be parsed.
    """
    return parse_json(annotations, FACTS_ANNOTATION, FactsAnnotation)


def parse_known_facts(annotations: Mapping[str, str]) -> FactsAnnotation | None:
    """Return what is known of the pod's workload; None if nothing is known.

    Facts in another format are ignored. A newer operator may have written them, and a pod must not
    wait until the extender is upgraded too.
    """
    try:
        return parse_facts(annotations)
    except AnnotationError:
        return None
