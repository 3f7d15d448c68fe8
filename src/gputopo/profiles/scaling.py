"""Computes throughput on good links by number of GPUs, and extrapolates it (FLEET, equation 1).

A job with ``m`` GPUs processes ``r(m)`` data per second. ``M`` is the largest measured number of
GPUs. FLEET assumes that each further GPU causes the same relative loss as the last one::

    r(m) = m * r(M) / M * (r(M) / r(M - 1) * (M - 1) / M)^(m - M)

So ``M - 1`` GPUs must be measured too. The paper extrapolates from twice the GPUs of a node, even
if more GPUs were measured.

Samples contain steps per second, and not the amount of data of a step. There are two usual cases.
If each GPU has its own batch, ``r`` is proportional to ``m`` times the steps per second. If the
GPUs divide one batch, ``r`` is proportional to the steps per second. Without losses, the steps per
second are constant in the first case, and proportional to ``m`` in the second. The case that is
nearer to the measured rates is assumed. If the confidence interval does not show which case is
nearer, nothing is extrapolated.

Example: a workload makes 10, 9.8 and 9.6 steps per second with 1, 2 and 3 GPUs. This is nearly
constant, so each GPU has its own batch. Four GPUs make ``9.6 * 9.6 / 9.8 = 9.4`` steps per second.
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
"""Links are good if they have at least this fraction of the bandwidth of the nodes' best links."""


def scaling_facts(samples: Iterable[Sample], demands: Demands = UNKNOWN) -> list[ScalingFact]:
    """Return the rate for each number of GPUs that has enough samples or can be extrapolated.

    All ``samples`` are of one GPU model and image. Samples taken beside a neighbour on the socket,
    or with fewer CPUs than in ``demands``, are excluded if enough others are left.
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
    """Return the samples on good links, or all samples if the jobs have one GPU."""
    if group[0].gpus == 1:
        return list(group)
    known = with_known_bandwidth(group)
    best = max((max(bandwidth_key(each)[1], each.best_mb_per_s or 0) for each in known), default=0)
    return [sample for sample in known if bandwidth_key(sample)[1] >= GOOD_LINKS * best]


def _level(samples: Sequence[Sample]) -> Estimate:
    return level(run_means(cells_of((sample, None) for sample in samples)).values())


def _extrapolated(levels: Mapping[int, Estimate]) -> list[tuple[int, Estimate]]:
    """Return the logarithm of the time per step for each number of GPUs above the measured ones."""
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
    """Return whether the GPUs divide one batch, or None if the rates do not show this."""
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
