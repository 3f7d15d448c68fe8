"""Computes how much slower a workload runs on slow links, by number of GPUs (MAPA, section 2.3).

Only runs on different links show this: the fastest links with samples must have at least
``MIN_CONTRAST`` times the bandwidth of the slowest. Two runs are enough to find a large slowdown,
for example two short runs to measure it. A regression (:mod:`gputopo.profiles.ratefit`) separates
the effect of the links from those of neighbours, CPUs and chance.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from gputopo.api.profile import LinkFact, Sample
from gputopo.profiles.percent import Slowdown, to_slowdown
from gputopo.profiles.ratefit import RateFit
from gputopo.sensitivity.resolve import SENSITIVE_FROM_PERCENT

MIN_CONTRAST: Final = 1.25
"""Least ratio of two bandwidths; with less, a slowdown is hard to measure."""

LEAST_PERCENT: Final = -5
"""No workload runs faster on slow links. If the whole interval is below this value, the samples are
wrong, and the class is unknown."""


def link_facts(fits: Mapping[int, RateFit]) -> list[LinkFact]:
    """Return the slowdown for each number of GPUs above 1 that has samples on different links."""
    facts = (_fact(gpus, fit) for gpus, fit in fits.items() if gpus > 1)
    return [fact for fact in facts if fact]


def shortage(samples: Sequence[Sample]) -> str:
    """Describe what is missing to compute a slowdown; empty if nothing is missing.

    All samples have the same number of GPUs.
    """
    bandwidths = [sample.effective_mb_per_s for sample in samples if sample.effective_mb_per_s]
    if not bandwidths:
        return "no sample with enough CPUs has the bandwidth of its GPUs"
    if max(bandwidths) < MIN_CONTRAST * min(bandwidths):
        return (
            f"all samples have similar links ({min(bandwidths)}..{max(bandwidths)} MB/s); "
            "run once on other links"
        )
    return ""


def _fact(gpus: int, fit: RateFit) -> LinkFact | None:
    if fit.links is None or shortage(fit.samples):
        return None
    slowdown = to_slowdown(fit.links)
    return LinkFact(
        gpus=gpus,
        percent=slowdown.percent,
        low_percent=slowdown.low,
        high_percent=slowdown.high,
        samples=len(fit.samples),
        sensitivity=_sensitivity(slowdown),
    )


def _sensitivity(slowdown: Slowdown) -> Literal["Sensitive", "Insensitive", "Unknown"]:
    if slowdown.low >= SENSITIVE_FROM_PERCENT:
        return "Sensitive"
    return "Insensitive" if LEAST_PERCENT <= slowdown.high < SENSITIVE_FROM_PERCENT else "Unknown"
