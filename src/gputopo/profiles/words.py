"""Describes the facts about links in words, for ``kubectl get`` and for conditions."""

from collections.abc import Iterable, Sequence
from typing import Final

from gputopo.api.profile import CommunicationFact, LinkFact, Sample, WorkloadFacts
from gputopo.profiles.comparable import by_gpus
from gputopo.profiles.known import is_insensitive
from gputopo.profiles.links import shortage
from gputopo.profiles.ratefit import counted
from gputopo.runtime.messages import shortened

_MAX_SUMMARY: Final = 256


def summary(
    declared_percent: int | None,
    links: Sequence[LinkFact],
    communication: Sequence[CommunicationFact] = (),
) -> str:
    """Describe the sensitivity of a workload. A value that the user declares has priority.

    Examples: ``45 % (40..50)``, ``insensitive, 3 % (0..8)``, ``insensitive, at most 4 % by
    counters``, ``unknown``.
    """
    if declared_percent is not None:
        return f"{declared_percent} % (declared)"
    known = {
        fact.gpus: f"insensitive, {limit(fact)}" for fact in filter(is_insensitive, communication)
    }
    known |= {fact.gpus: sensitivity(fact) for fact in links}
    if len(known) <= 1:
        return next(iter(known.values()), "unknown")
    text = "; ".join(with_gpus(*each) for each in sorted(known.items()))
    return shortened(text, _MAX_SUMMARY)


def sensitivity(fact: LinkFact) -> str:
    """Describe a slowdown, for example ``45 % (40..50)`` or ``insensitive, 3 % (0..8)``."""
    slowdown = f"{fact.percent} % ({fact.low_percent}..{fact.high_percent})"
    if fact.sensitivity == "Sensitive":
        return slowdown
    return f"{fact.sensitivity.lower()}, {slowdown}"


def limit(fact: CommunicationFact) -> str:
    """Describe the upper bound of a slowdown, for example ``at most 4 % by counters``."""
    return f"at most {fact.slowdown_high_percent} % by counters"


def with_gpus(gpus: int, text: str) -> str:
    """Put the number of GPUs before the text, for example ``4 GPUs: 45 % (40..50)``."""
    return f"{gpus} GPUs: {text}"


def known_and_missing(facts: WorkloadFacts, samples: Iterable[Sample]) -> str:
    """Describe for each number of GPUs the slowdown on slow links, or what is missing for it.

    ``facts`` are derived from ``samples``. Jobs with one GPU are left out: they use no links.
    """
    links = {fact.gpus: fact for fact in facts.links}
    limits = {
        fact.gpus: f"{limit(fact)}; "
        for fact in facts.communication
        if fact.slowdown_high_percent is not None
    }
    demands = {fact.gpus: fact.demand_milli_cpu for fact in facts.cpus}
    return "; ".join(
        with_gpus(
            gpus,
            sensitivity(links[gpus])
            if gpus in links
            else limits.get(gpus, "") + shortage(counted(group, demands.get(gpus))),
        )
        for gpus, group in by_gpus(samples).items()
        if gpus > 1
    )
