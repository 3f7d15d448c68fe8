"""Computes how much slower a workload runs on slow links, by number of GPUs (MAPA, section 2.3).

Only runs on different links show this. The middle of ``1 / bandwidth`` divides the samples into
those on fast and those on slow links. A slowdown is computed only if

- the fastest links have at least ``MIN_CONTRAST`` times the bandwidth of the slowest links;
- both fast and slow links have three samples, or samples of two runs, so that one wrong sample has
  little effect;
- there are ``MIN_RUNS`` runs, because two runs do not show how much the speed differs by chance.

Samples taken beside a neighbour on the socket, or with fewer CPUs than the workload needs, are
excluded if enough other samples are left. Otherwise all samples count, and the slowdown may include
the effects of neighbours and missing CPUs.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from math import exp, inf
from typing import Final, Literal, NamedTuple

from gputopo.api.profile import LinkFact, Sample
from gputopo.profiles.comparable import (
    MIN_SAMPLES,
    UNKNOWN,
    Demands,
    alone_on_socket,
    bandwidth_key,
    by_gpus,
    enough,
    first_enough,
    in_order,
    with_enough_cpus,
    with_known_bandwidth,
)
from gputopo.profiles.estimate import Estimate
from gputopo.profiles.linkfit import MIDDLE, RunPoint, fit_slowdown
from gputopo.profiles.percent import Slowdown, to_slowdown
from gputopo.profiles.runs import across_runs, cells_of, newest_runs, run_means
from gputopo.sensitivity.resolve import SENSITIVE_FROM_PERCENT

MIN_CONTRAST: Final = 1.25
"""Least ratio of two bandwidths; with less, a slowdown is hard to measure."""

MIN_RUNS: Final = 3


class Range(NamedTuple):
    """Seconds per megabyte of all links (``best`` to ``worst``) and of the links with samples."""

    best: float
    fastest: float
    slowest: float
    worst: float

    def position(self, bandwidth: float) -> float:
        """Return where a bandwidth in MB/s lies between ``fastest`` (0) and ``slowest`` (1)."""
        return self._position(1 / bandwidth)

    def percent(self, log_slowdown: float) -> float:
        """Return the slowdown from the best to the worst links in percent.

        ``log_slowdown`` is the logarithm of the slowdown from the fastest to the slowest links.
        """
        rise = exp(log_slowdown) - 1
        best = 1 + rise * self._position(self.best)
        worst = 1 + rise * self._position(self.worst)
        return 100 * (worst / best - 1) if best > 0 else inf

    def _position(self, value: float) -> float:
        return (value - self.fastest) / (self.slowest - self.fastest)


def link_facts(samples: Iterable[Sample], demands: Demands = UNKNOWN) -> list[LinkFact]:
    """Return the slowdown on slow links for each number of GPUs above 1 with enough samples.

    All ``samples`` are of one GPU model and image.
    """
    facts = (
        _fact(gpus, usable(group, demands.get(gpus)))
        for gpus, group in by_gpus(samples).items()
        if gpus > 1
    )
    return [fact for fact in facts if fact]


def usable(samples: Sequence[Sample], demand: int | None = None) -> list[Sample]:
    """Return the samples to compare. ``samples`` have equal numbers of GPUs and ascend by time."""
    known = with_known_bandwidth(samples)
    alone = alone_on_socket(known)
    choices = (with_enough_cpus(alone, demand), alone, known)
    return first_enough(choices, lambda chosen: not shortage(chosen))


def shortage(samples: Sequence[Sample]) -> str:
    """Return in words what is missing to compute a slowdown; empty if the samples are enough."""
    if not samples:
        return "no sample has the bandwidth of its GPUs"
    bandwidths = [bandwidth_key(sample)[1] for sample in samples]
    if max(bandwidths) < MIN_CONTRAST * min(bandwidths):
        return (
            f"all samples have similar links ({min(bandwidths)}..{max(bandwidths)} MB/s); "
            "run once on other links"
        )
    for side, found in zip(("fast", "slow"), _sides(samples), strict=True):
        if not enough(found):
            return f"{len(found)} of {MIN_SAMPLES} samples on {side} links; run again on such links"
    runs = len({sample.pod_uid for sample in samples})
    return f"{runs} of {MIN_RUNS} runs" if runs < MIN_RUNS else ""


def _fact(gpus: int, samples: Sequence[Sample]) -> LinkFact | None:
    if shortage(samples):
        return None
    counted = in_order(chain.from_iterable(map(newest_runs, _sides(samples))))
    measured = _range(samples)
    estimate = _estimate(counted, measured)
    if estimate is None:
        return None
    slowdown = to_slowdown(estimate, measured.percent)
    return LinkFact(
        gpus=gpus,
        percent=slowdown.percent,
        low_percent=slowdown.low,
        high_percent=slowdown.high,
        samples=len(counted),
        sensitivity=_sensitivity(slowdown),
    )


def _sides(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Return the samples on fast and on slow links, each ascending by time."""
    measured = _range(samples)
    sides: tuple[list[Sample], list[Sample]] = ([], [])
    for sample in samples:
        sides[measured.position(bandwidth_key(sample)[1]) >= MIDDLE].append(sample)
    return sides


def _range(samples: Sequence[Sample]) -> Range:
    measured = [1 / bandwidth_key(sample)[1] for sample in samples]
    best = [1 / sample.best_mb_per_s for sample in samples if sample.best_mb_per_s]
    worst = [1 / sample.worst_mb_per_s for sample in samples if sample.worst_mb_per_s]
    return Range(min(measured + best), min(measured), max(measured), max(measured + worst))


def _estimate(samples: Sequence[Sample], measured: Range) -> Estimate | None:
    means = run_means(cells_of((sample, bandwidth_key(sample)) for sample in samples))
    runs = {run: number for number, run in enumerate(dict.fromkeys(run for run, _ in means))}
    points = [
        RunPoint(
            measured.position(bandwidth),
            (runs[run] + 0.5) / len(runs) - 0.5,
            mean.value,
            across_runs(mean).variance,
        )
        for (run, (_, bandwidth)), mean in means.items()
    ]
    return fit_slowdown(points)


def _sensitivity(slowdown: Slowdown) -> Literal["Sensitive", "Insensitive", "Unknown"]:
    if slowdown.low >= SENSITIVE_FROM_PERCENT:
        return "Sensitive"
    return "Insensitive" if slowdown.high < SENSITIVE_FROM_PERCENT else "Unknown"
