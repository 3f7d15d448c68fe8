"""Selects the facts that new jobs of a workload get with the annotation ``gputopo.io/facts``."""

from typing import Final

from gputopo.api.known_facts import FROM_COUNTERS, FactsAnnotation, KnownPattern, KnownSlowdown
from gputopo.api.profile import CommunicationFact, WorkloadFacts
from gputopo.patterns.model import PatternKind
from gputopo.sensitivity.resolve import SENSITIVE_FROM_PERCENT

_KINDS: Final = frozenset(kind.value for kind in PatternKind if kind is not PatternKind.CUSTOM)


def facts_annotation(
    profile: str, declared_percent: int | None, facts: WorkloadFacts | None
) -> FactsAnnotation | None:
    """Return what is known of a workload; None if nothing is known.

    A slowdown that the user declares has priority over a measured one.
    """
    patterns = known_patterns(facts)
    if declared_percent is not None:
        return FactsAnnotation.declared(profile, declared_percent, patterns)
    slowdowns = known_slowdowns(facts)
    if not slowdowns and not patterns:
        return None
    measured = facts is not None and bool(facts.links)
    return FactsAnnotation(
        profile=profile,
        source="Measured" if measured else FROM_COUNTERS,
        links=slowdowns,
        patterns=patterns,
    )


def known_slowdowns(facts: WorkloadFacts | None) -> dict[int, KnownSlowdown]:
    """Return the slowdown on slow links by number of GPUs.

    If runs on different links have not shown it, hardware counters may give an upper bound.
    """
    if facts is None:
        return {}
    limits = {
        fact.gpus: KnownSlowdown.by_counters(fact.slowdown_high_percent, fact.samples)
        for fact in facts.communication
        if fact.slowdown_high_percent is not None
    }
    measured = {fact.gpus: KnownSlowdown.measured(fact) for fact in facts.links}
    return dict(sorted((limits | measured).items()))


def known_patterns(facts: WorkloadFacts | None) -> dict[int, KnownPattern]:
    """Return the communication pattern by number of GPUs, where it is known.

    For GPUs that do not communicate, no pattern is better than another.
    """
    return {
        fact.gpus: KnownPattern(
            kind=fact.pattern, confidence=fact.confidence_permille, windows=fact.windows
        )
        for fact in (facts.communication if facts else ())
        if fact.pattern in _KINDS
    }


def is_insensitive(fact: CommunicationFact) -> bool:
    """Return whether the bytes of a step are too few to make a job sensitive."""
    high = fact.slowdown_high_percent
    return high is not None and high < SENSITIVE_FROM_PERCENT
