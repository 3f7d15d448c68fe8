"""TrafficLimits the effect of slow links by the bytes of a step (:mod:`gputopo.counters.share`).

Two things are unknown: how much of the communication is hidden behind computation, and often the
pattern. So each step is assumed to wait for all of its communication, and the bytes are those that
the busiest GPU and the narrowest cut of the links carry at most.

Samples have the bandwidths of the pattern for which their GPUs were chosen, P. If the counters show
P, or both are patterns of all-reduce, the bandwidths hold for the traffic. Otherwise P has
to be a pattern of all-reduce: there, each byte that a GPU sends crosses a cut of the links once. In
other traffic, a cut between k and n - k of n GPUs is crossed at most by what k GPUs send:

- if each GPU sends to all others equally, by k (n - k) / (n - 1) times the bytes of one GPU, which
  is at most n^2 / (4 (n - 1));
- in any other case, at most by n / 2 times the mean bytes of a GPU. A GPU itself sends at most n /
  2 times the mean, as the centre of a star.

Example: 4 GPUs were chosen for Ring and send 3 GB per step as AllToAll. This is like a ring with
3 * 16 / 12 = 4 GB. The links of the samples give 48 GB/s, and the worst of the node 12 GB/s, so a
step is at most 4 / 12 - 4 / 48 = 0.25 s longer there.
"""

from collections.abc import Sequence
from math import ceil
from typing import Final, NamedTuple

from gputopo.api.profile import Sample
from gputopo.counters.share import (
    StepTraffic,
    busiest_gpu_bytes,
    communication_share,
    most_slowdown_percent,
)
from gputopo.patterns.model import PatternKind, build
from gputopo.profiles.comparable import with_enough_cpus

MOST_PERCENT: Final = 100_000
"""Largest slowdown that the API can state."""

_ROUNDING: Final = 1e-9  # 20.000000000000004 is 20
_ALL_REDUCE: Final = {PatternKind.RING.value, PatternKind.TREE.value, PatternKind.RING_TREE.value}
_KINDS: Final = {kind.value: kind for kind in PatternKind if kind is not PatternKind.CUSTOM}


class TrafficLimits(NamedTuple):
    """Upper bounds in percent.

    Attributes:
        share: share of a step in which the GPUs communicate.
        slowdown: how much longer a step is on the worst links than on the best.
    """

    share: int
    slowdown: int


def limits(
    samples: Sequence[Sample], mean_bytes: int, pattern: str, demand: int | None
) -> TrafficLimits | None:
    """Return the upper bounds that hold for all samples with enough CPUs.

    Args:
        samples: samples of one number of GPUs above 1.
        mean_bytes: upper end of the bytes that a GPU sends in one step, mean of the GPUs.
        pattern: the pattern that the counters show; any other text if it is unknown.
        demand: CPUs that the workload needs, in thousandths of a CPU; None if unknown.

    Returns:
        None if no sample limits the slowdown, or the limit is above ``MOST_PERCENT``.
    """
    found = [
        limit
        for sample in with_enough_cpus(samples, demand)
        if (limit := _of_sample(sample, mean_bytes, pattern))
    ]
    if not found:
        return None
    most = TrafficLimits(
        max(limit.share for limit in found), max(limit.slowdown for limit in found)
    )
    return most if most.slowdown <= MOST_PERCENT else None


def _of_sample(sample: Sample, mean_bytes: int, pattern: str) -> TrafficLimits | None:
    sent = _carried_bytes(sample.gpus, mean_bytes, pattern, sample.pattern or "")
    best, worst, used = sample.best_mb_per_s, sample.worst_mb_per_s, sample.effective_mb_per_s
    if sent is None or not (best and worst and used and worst <= used <= best):
        return None
    # The shortest step of the 95 % interval: the shorter it is, the more the communication counts.
    seconds = 1 / (sample.steps_per_second * (1 + sample.ci_permille / 1000))
    traffic = StepTraffic(sent, used, seconds)
    share = ceil(100 * communication_share(traffic) - _ROUNDING)
    return TrafficLimits(share, most_slowdown_percent(traffic, best, worst))


def _carried_bytes(gpus: int, mean_bytes: int, shown: str, assumed: str) -> float | None:
    """Return the bytes for which the bandwidths of the pattern ``assumed`` give enough time."""
    if shown in _KINDS and (shown == assumed or {shown, assumed} <= _ALL_REDUCE):
        return busiest_gpu_bytes(mean_bytes, gpus, build(_KINDS[shown], gpus))
    if assumed not in _ALL_REDUCE:
        return None
    if shown == PatternKind.ALL_TO_ALL:
        return mean_bytes * gpus**2 / (4 * (gpus - 1))
    return busiest_gpu_bytes(mean_bytes, gpus, None)
