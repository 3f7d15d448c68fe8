"""The facts about links in words, for ``kubectl get`` and for conditions."""

from collections.abc import Iterable, Sequence
from typing import Final

from gputopo.api.profile import LinkFact, Sample, WorkloadFacts
from gputopo.profiles.comparable import by_gpus
from gputopo.profiles.links import shortage, usable

CONTRADICTION: Final = "the runs on fast or on slow links contradict each other; run there again"

_MAX_SUMMARY: Final = 256


def summary(declared_percent: int | None, links: Sequence[LinkFact]) -> str:
    """Return the sensitivity in at most 256 characters; the declared one has priority.

    Example: ``45 % (40..50)``, ``insensitive, 3 % (0..8)``, ``unknown``.
    """
    if declared_percent is not None:
        return f"{declared_percent} % (declared)"
    if not links:
        return "unknown"
    if len(links) == 1:
        return sensitivity(links[0])
    text = "; ".join(with_gpus(fact.gpus, sensitivity(fact)) for fact in links)
    return text if len(text) <= _MAX_SUMMARY else text[: _MAX_SUMMARY - 3] + "..."


def sensitivity(fact: LinkFact) -> str:
    """Return the slowdown and its interval, with the class unless it is sensitive."""
    slowdown = f"{fact.percent} % ({fact.low_percent}..{fact.high_percent})"
    if fact.sensitivity == "Sensitive":
        return slowdown
    return f"{fact.sensitivity.lower()}, {slowdown}"


def with_gpus(gpus: int, text: str) -> str:
    """Return the text as one about jobs with this number of GPUs."""
    return f"{gpus} GPUs: {text}"


def known_and_missing(facts: WorkloadFacts, samples: Iterable[Sample]) -> str:
    """Return for each number of GPUs the fact, or what is missing for it.

    ``samples`` are those of the facts. One GPU uses no links and is left out.
    """
    links = {fact.gpus: fact for fact in facts.links}
    demands = {fact.gpus: fact.demand_milli_cpu for fact in facts.cpus}
    return "; ".join(
        with_gpus(
            gpus,
            sensitivity(links[gpus])
            if gpus in links
            else shortage(usable(group, demands.get(gpus))) or CONTRADICTION,
        )
        for gpus, group in by_gpus(samples).items()
        if gpus > 1
    )
