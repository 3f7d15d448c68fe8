"""Computes the rate of a sequence of blocks, with a 95 % confidence interval.

The rate is the sum of the steps divided by the sum of the seconds (Cochran, Sampling Techniques,
3rd edition, section 6.3). The interval is computed by the method of batch means, from Student's
distribution and the residuals of batches. It is wider if successive batches are correlated
(Tafazzoli, Steiger, Wilson: N-Skart, IEEE Transactions on Automatic Control 56(2), 2011; only the
correction of the variance by the correlation at lag 1 is used here).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import NormalDist
from typing import Final

from gputopo.throughput.blocks import Block, batches, without_outliers

MIN_BLOCKS: Final = 10
"""With fewer blocks, no interval is computed."""

_MOST_CORRELATION: Final = 0.8
NO_DRIFT: Final = 0.005
"""A change of the rate by less than this fraction is no drift, even if it is significant."""

_QUANTILE: Final = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class RateInterval:
    """A rate with its 95 % confidence interval.

    Attributes:
        steps_per_second: positive.
        half_width: half of the interval, relative to the rate; 0.05 is 5 %.
        seconds: duration of the blocks.
    """

    steps_per_second: float
    half_width: float
    seconds: float

    @property
    def ci_permille(self) -> int:
        """Half of the interval in thousandths of the rate, rounded up, at least 1."""
        return max(1, math.ceil(1000 * self.half_width))


def steady_interval(blocks: Sequence[Block], least_drift: float = NO_DRIFT) -> RateInterval | None:
    """Return the rate of the blocks without outliers, or None if the rate is not steady.

    The rate is not steady if there are fewer than 10 blocks, too many outliers, or a drift by more
    than the fraction ``least_drift`` of the rate.
    """
    if len(blocks) < MIN_BLOCKS:
        return None
    kept = without_outliers(blocks)
    return None if kept is None or drifts(kept, least_drift) else rate_interval(kept)


def drifts(blocks: Sequence[Block], least_drift: float = NO_DRIFT) -> bool:
    """Return whether the rate drifts (rises or falls) over a sequence of 4 or more blocks.

    The rate drifts if the test of Mann (Nonparametric Tests Against Trend, Econometrica 13, 1945)
    and Kendall is significant at 5 %, and the rates of the two halves of ``blocks`` differ by more
    than the fraction ``least_drift``. The test counts the pairs of blocks in which the later block
    is faster, minus the pairs in which the later block is slower.
    """
    per_step = [block.seconds / block.steps for block in blocks]
    count = len(per_step)
    pairs = sum(
        (later < earlier) - (later > earlier) for earlier, later in combinations(per_step, 2)
    )
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    if abs(pairs) <= _QUANTILE * deviation:
        return False
    older, newer = _rate(blocks[: count // 2]), _rate(blocks[count // 2 :])
    return abs(older - newer) > least_drift * newer


def rate_interval(blocks: Sequence[Block]) -> RateInterval:
    """Return the rate of at least 4 blocks, with its interval. Outliers are not removed.

    Example: batches of 10 steps take 1.0, 1.1, 0.9 and 1.0 s. The mean is 0.1 s per step. The
    residuals are 0.0, 0.1, -0.1 and 0.0 s, with a standard deviation of 0.082 s. The standard error
    of the sum of 4 s is ``0.082 * sqrt(4) = 0.163`` s. Half of the interval is 3.18 times
    (Student's quantile) the standard error, which is 13 % of the sum.
    """
    pairs = batches(blocks)
    steps, seconds = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    residuals = [pair[1] - pair[0] * seconds / steps for pair in pairs]
    squares = sum(residual * residual for residual in residuals)
    count = len(pairs)
    correlation = _correlation(residuals, squares)
    variance = count / (count - 1) * squares * (1 + correlation) / (1 - correlation)
    return RateInterval(
        steps / seconds, student_quantile(count - 1) * math.sqrt(variance) / seconds, seconds
    )


def _correlation(residuals: Sequence[float], squares: float) -> float:
    """Return the correlation of successive residuals, from 0 to 0.8, corrected for its bias.

    In a sequence of ``n`` values, the estimate ``r`` has a bias of about -(1 + 3 r) / n (Kendall:
    Note on Bias in the Estimation of Autocorrelation, Biometrika 41, 1954). A negative correlation
    counts as 0, so that an interval never becomes narrower.
    """
    if not squares:
        return 0.0
    estimate = sum(a * b for a, b in pairwise(residuals)) / squares
    return min(_MOST_CORRELATION, max(0.0, estimate + (1 + 3 * estimate) / len(residuals)))


def student_quantile(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution for at least 3 degrees of freedom.

    Abramowitz, Stegun: Handbook of Mathematical Functions, formula 26.7.5. The error is at most
    0.12 %.
    """
    z = _QUANTILE
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    quantile: float = z + sum(term / degrees**power for power, term in enumerate(terms, 1))
    return quantile


def _rate(blocks: Sequence[Block]) -> float:
    return sum(block.steps for block in blocks) / sum(block.seconds for block in blocks)
