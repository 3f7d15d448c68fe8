"""The slowness of links: ``1 / bandwidth``, scaled to 0 for the best and 1 for the worst links."""

from collections.abc import Sequence

from gputopo.api.profile import Sample


def slowness_of(samples: Sequence[Sample]) -> list[float]:
    """Return the slowness of the links of each sample; 0 for all if their links are equal.

    The best links have the highest bandwidth in ``samples``, and the worst links the lowest. The
    fields ``best_mb_per_s`` and ``worst_mb_per_s`` of the samples are included in this comparison.
    A sample without a bandwidth has slowness 0.

    Example: with 50 GB/s at best and 10 GB/s at worst, 25 GB/s have the slowness
    (1/25 - 1/50) / (1/10 - 1/50) = 0.25.
    """
    own = [
        1 / sample.effective_mb_per_s if sample.effective_mb_per_s else 0.0 for sample in samples
    ]
    known = [each for each in own if each]
    best = min(known + [1 / one.best_mb_per_s for one in samples if one.best_mb_per_s], default=0.0)
    worst = max(
        known + [1 / one.worst_mb_per_s for one in samples if one.worst_mb_per_s], default=0.0
    )
    if worst <= best:
        return [0.0] * len(own)
    return [(each - best) / (worst - best) if each else 0.0 for each in own]


def sides(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Split samples halfway between the lowest and the highest slowness: (fast, slow) links."""
    slowness = slowness_of(samples)
    middle = (min(slowness, default=0.0) + max(slowness, default=0.0)) / 2
    found: tuple[list[Sample], list[Sample]] = ([], [])
    for sample, each in zip(samples, slowness, strict=True):
        found[each > middle].append(sample)
    return found
