"""Throughput by number of GPUs on good links, and its extrapolation (FLEET, equation 1).

FLEET extrapolates beyond the ``M`` GPUs that were measured by the loss of the last GPU::

    r(m) = m * r(M) / M * (r(M) / r(M - 1) * (M - 1) / M)^(m - M)

The paper anchors this at twice the GPUs of a node even if more GPUs were measured. Here ``M`` is
the largest number that was measured (``research/artefacts.md``, section 5), and ``M - 1`` must have
been measured too.

``r`` is data per second, but samples have steps per second, and how much data a step has is not
known. There are two usual cases. If each GPU has its own batch, ``r`` is proportional to ``m``
times the steps per second; if GPUs divide one batch, ``r`` is proportional to the steps per second.
Without losses, the rate of steps is constant in the first case, and proportional to ``m`` in the
second. The nearer case is assumed; if the interval contains both, nothing is extrapolated.

Example: 10, 9.8 and 9.6 steps per second with 1, 2 and 3 GPUs are nearly constant. Each GPU has its
own batch, and four GPUs make ``9.6 * 9.6 / 9.8 = 9.4`` steps per second.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Final

from gputopo.api.profile import Sample, ScalingFact
from gputopo.patterns.model import MAX_GPUS_PER_POD
from gputopo.profiles.comparable import (
    UNKNOWN,
    Demands,
    alone_on_socket,
    bandwidth_key,
    by_gpus,
    enough,
    first_enough,
    with_enough_cpus,
    with_known_bandwidth,
)
from gputopo.profiles.estimate import Estimate, difference
from gputopo.profiles.rates import to_rate
from gputopo.profiles.runs import cells_of, level, newest_runs, run_means

GOOD_LINKS: Final = 0.8
"""Least share of the bandwidth of the best links of the nodes."""


def scaling_facts(samples: Iterable[Sample], demands: Demands = UNKNOWN) -> list[ScalingFact]:
    """Return the rate for each number of GPUs that has enough samples or can be extrapolated.

    ``samples`` are of one GPU model and image. Samples beside a neighbour on the socket and samples
    with fewer CPUs than the demand are excluded if enough others are left.
    """
    levels = {
        gpus: _level(chosen)
        for gpus, group in by_gpus(samples).items()
        if enough(chosen := _chosen(group, demands.get(gpus)))
    }
    return [
        *(_fact(gpus, log_time, extrapolated=False) for gpus, log_time in levels.items()),
        *(_fact(gpus, log_time, extrapolated=True) for gpus, log_time in _extrapolated(levels)),
    ]


def _chosen(group: Sequence[Sample], demand: int | None) -> list[Sample]:
    good = _on_good_links(group)
    alone = alone_on_socket(good)
    choices = (with_enough_cpus(alone, demand), alone, good)
    return newest_runs(first_enough(choices, enough))


def _on_good_links(group: Sequence[Sample]) -> list[Sample]:
    """Return the samples on links that are nearly the best; one GPU uses no links."""
    if group[0].gpus == 1:
        return list(group)
    known = with_known_bandwidth(group)
    best = max((max(bandwidth_key(each)[1], each.best_mb_per_s or 0) for each in known), default=0)
    return [sample for sample in known if bandwidth_key(sample)[1] >= GOOD_LINKS * best]


def _level(samples: Sequence[Sample]) -> Estimate:
    """Return the logarithm of the time per step."""
    return level(run_means(cells_of((sample, None) for sample in samples)).values())


def _extrapolated(levels: Mapping[int, Estimate]) -> list[tuple[int, Estimate]]:
    """Return the logarithms of the times per step beyond the largest number of GPUs."""
    last = max(levels, default=0)
    if last - 1 not in levels or (divided := _one_batch(levels)) is None:
        return []
    result = []
    for more in range(1, MAX_GPUS_PER_POD - last + 1):
        found = difference(levels[last].scaled(1 + more), levels[last - 1].scaled(more))
        faster = log((last + more) / last) - more * log(last / (last - 1)) if divided else 0.0
        result.append((last + more, found._replace(value=found.value - faster)))
    return result


def _one_batch(levels: Mapping[int, Estimate]) -> bool | None:
    """Return whether GPUs divide one batch, None if the rates do not show it."""
    first, last = min(levels), max(levels)
    low, high = difference(levels[first], levels[last]).interval
    middle = log(last / first) / 2
    return None if low <= middle <= high else low > middle


def _fact(gpus: int, log_time: Estimate, *, extrapolated: bool) -> ScalingFact:
    rate = to_rate(log_time)
    return ScalingFact(
        gpus=gpus,
        micro_steps_per_second=rate.micro_steps_per_second,
        ci_permille=rate.ci_permille,
        extrapolated=extrapolated,
    )
