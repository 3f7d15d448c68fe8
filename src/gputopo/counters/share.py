"""Upper bounds for the effect of slow links on a job, from its bytes per step.

Counters show how much a job sends, and not how much of this time is hidden behind computation. So
the time of the communication is an upper bound for its effect, and the lower bound is 0.

Example: a GPU sends 5 GB in a step of 0.5 s, on links with an effective bandwidth of 50 GB/s. The
communication takes 5 / 50 = 0.1 s, at most 20 % of the step. On the worst links, with 20 GB/s, it
takes 5 / 20 = 0.25 s. So a step takes at most 0.15 s longer there, which is 30 % of 0.5 s. If the
job hides all of its communication, it does not become slower at all.
"""

from math import ceil
from typing import NamedTuple

from gputopo.errors import InvalidInputError
from gputopo.patterns.model import Pattern


class StepTraffic(NamedTuple):
    """What was measured of a job on some links.

    Attributes:
        bytes_per_step: bytes that the busiest GPU sends in one step, or more.
        mb_per_s: effective bandwidth of the links, positive.
        step_seconds: time of one step, positive.
    """

    bytes_per_step: float
    mb_per_s: float
    step_seconds: float


def busiest_gpu_bytes(mean_bytes: float, size: int, pattern: Pattern | None) -> float:
    """Return at most how many bytes the busiest of ``size`` GPUs sends, from the mean of all GPUs.

    Equal traffic on all edges of the pattern is assumed. In a star of 4 GPUs, the centre has three
    edges and the others have one, so the centre sends twice the mean. No other pattern has a
    higher ratio, so an unknown pattern (None) is treated as a star.

    Raises:
        InvalidInputError: if there is only one GPU, or the pattern has another size.
    """
    if size < 2:  # noqa: PLR2004 - one GPU sends nothing to others
        raise InvalidInputError(f"size: {size}; must be at least 2")
    if pattern is None:
        return mean_bytes * size / 2
    if pattern.size != size:
        raise InvalidInputError(f"pattern.size: {pattern.size}; must be size, {size}")
    degrees = [0] * size
    for edge in pattern.edges:
        degrees[edge.a] += edge.weight
        degrees[edge.b] += edge.weight
    return mean_bytes * max(degrees) * size / sum(degrees)


def communication_share(traffic: StepTraffic) -> float:
    """Return at most which share of a step is communication, from 0 to 1.

    >>> communication_share(StepTraffic(5e9, 50_000, 0.5))
    0.2

    Raises:
        InvalidInputError: on a bandwidth or a time that is not positive, or negative bytes.
    """
    _require_valid(traffic)
    return min(1.0, _seconds(traffic.bytes_per_step, traffic.mb_per_s) / traffic.step_seconds)


def most_slowdown_percent(traffic: StepTraffic, best_mb_per_s: float, worst_mb_per_s: float) -> int:
    """Return by how many percent a step takes longer on the worst links than on the best, at most.

    The least value is 0. The step may have been measured on any links. Its time on the best links
    is then at least the measured time less the time that the communication saves there; and at
    least the measured time divided by the ratio of the bandwidths.

    >>> most_slowdown_percent(StepTraffic(5e9, 50_000, 0.5), 50_000, 20_000)
    30

    Raises:
        InvalidInputError: on values that are not positive, negative bytes, or worst links that are
            faster than the best or the measured ones, or best links slower than the measured ones.
    """
    _require_valid(traffic)
    if not 0 < worst_mb_per_s <= traffic.mb_per_s <= best_mb_per_s:
        raise InvalidInputError(
            f"bandwidths: worst {worst_mb_per_s}, measured {traffic.mb_per_s} and best"
            f" {best_mb_per_s} MB/s; must be positive and ascending"
        )
    sent = traffic.bytes_per_step
    saved = _seconds(sent, traffic.mb_per_s) - _seconds(sent, best_mb_per_s)
    best_seconds = max(
        traffic.step_seconds - saved,
        traffic.step_seconds * traffic.mb_per_s / best_mb_per_s,
    )
    longer = _seconds(sent, worst_mb_per_s) - _seconds(sent, best_mb_per_s)
    slowdown = min(longer / best_seconds, best_mb_per_s / worst_mb_per_s - 1)
    return ceil(100 * slowdown - 1e-9)  # 30.000000000000004 is 30


def _seconds(sent: float, mb_per_s: float) -> float:
    return sent / (mb_per_s * 1e6)


def _require_valid(traffic: StepTraffic) -> None:
    sent, mb_per_s, seconds = traffic
    if not (sent >= 0 and mb_per_s > 0 and seconds > 0):
        raise InvalidInputError(
            f"traffic: {sent} bytes per step, {mb_per_s} MB/s, {seconds} s per step; bytes must be"
            " at least 0, the others positive"
        )
