"""Computes throughput on good links by number of GPUs, and extrapolates it (FLEET, equation 1).

The rates are for runs without neighbours, on the best links, with the usual CPUs: the base of the
regression (:mod:`gputopo.profiles.ratefit`). ``r(m)`` is the data per second of ``m`` GPUs.
``M`` is the largest measured number of GPUs. FLEET assumes that each further GPU causes the same
relative loss as the last one::

    r(m) = m * r(M) / M * (r(M) / r(M - 1) * (M - 1) / M)^(m - M)

In the paper, ``M`` is twice the number of GPUs of a node, even if larger jobs were measured.
If ``M - 1`` was not measured, but a smaller number ``K``, the loss from ``K`` to ``M`` is divided
by ``M - K`` to get the loss of one GPU. ``K`` is at least 2, because one GPU does not communicate.
Nothing is extrapolated beyond ``2 * M``, because the error of the loss grows with each GPU.

Samples contain steps per second, and not the amount of data of a step. There are two usual cases.
If each GPU has its own batch, ``r`` is proportional to ``m`` times the steps per second. If the
GPUs divide one batch, ``r`` is proportional to the steps per second. Without losses, the steps per
second are constant in the first case, and proportional to ``m`` in the second. The case that is
nearer to the measured rates is assumed. If the confidence interval does not show which case is
nearer, nothing is extrapolated.

Example: a workload makes 10, 9.8 and 9.6 steps per second with 1, 2 and 3 GPUs. This is nearly
constant, so each GPU has its own batch. Four GPUs make ``9.6 * 9.6 / 9.8 = 9.4`` steps per second.
"""

from collections.abc import Iterator, Mapping
from math import hypot, log
from typing import Final

from gputopo.api.profile import ScalingFact
from gputopo.patterns.model import MAX_GPUS_PER_POD
from gputopo.profiles.comparable import enough
from gputopo.profiles.ratefit import Effect, RateFit
from gputopo.profiles.rates import to_rate

DOUBT: Final = 0.3
"""Standard deviation of an extrapolated loss, relative to this loss, because further GPUs do not
cause exactly the same loss."""

_WIDEST: Final = log(2)
"""A rate is known if its 95 % interval reaches at most to twice the rate."""


def scaling_facts(fits: Mapping[int, RateFit]) -> list[ScalingFact]:
    """Return the rate for each number of GPUs that has enough samples or can be extrapolated."""
    known = {
        gpus: fit.log_seconds
        for gpus, fit in fits.items()
        if enough(fit.samples) and _is_known(fit.log_seconds)
    }
    return [
        *(_fact(gpus, seconds, extrapolated=False) for gpus, seconds in known.items()),
        *(_fact(gpus, seconds, extrapolated=True) for gpus, seconds in _extrapolated(known)),
    ]


def _extrapolated(known: Mapping[int, Effect]) -> Iterator[tuple[int, Effect]]:
    """Yield numbers of GPUs above all measured ones, each with the log of its seconds per step."""
    counts = sorted(gpus for gpus in known if gpus > 1)
    if len(counts) < 2 or (divided := _one_batch(known)) is None:  # noqa: PLR2004 - two points
        return
    before, last = counts[-2:]
    ideal = log(last / before) if divided else 0.0
    loss = known[last].value - known[before].value + ideal
    for gpus in range(last + 1, min(2 * last, MAX_GPUS_PER_POD) + 1):
        more = (gpus - last) / (last - before)
        found = Effect(
            known[last].value + more * loss - (log(gpus / last) if divided else 0.0),
            hypot(
                (1 + more) * known[last].deviation,
                more * known[before].deviation,
                DOUBT * more * loss,
            ),
            max(known[last].quantile, known[before].quantile),
        )
        if _is_known(found):
            yield gpus, found


def _one_batch(known: Mapping[int, Effect]) -> bool | None:
    """Return whether the GPUs divide one batch, or None if the rates do not show this."""
    first, last = min(known), max(known)
    faster = known[first].value - known[last].value
    half = hypot(*(known[gpus].quantile * known[gpus].deviation for gpus in (first, last)))
    middle = log(last / first) / 2
    return None if abs(faster - middle) <= half else faster > middle


def _is_known(log_seconds: Effect) -> bool:
    return log_seconds.quantile * log_seconds.deviation <= _WIDEST


def _fact(gpus: int, log_seconds: Effect, *, extrapolated: bool) -> ScalingFact:
    rate = to_rate(log_seconds)
    return ScalingFact(
        gpus=gpus,
        micro_steps_per_second=rate.micro_steps_per_second,
        ci_permille=rate.ci_permille,
        extrapolated=extrapolated,
    )
