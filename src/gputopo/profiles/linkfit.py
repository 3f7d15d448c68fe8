"""Weighted regression of the time per step on ``1 / bandwidth``.

The time per step is ``a + v / bandwidth``: ``a`` is the time of computing, which no link changes,
and ``v`` the data that each step sends, as in Amdahl's law. MAPA (section 2.3) divides jobs into
sensitive and insensitive ones by such times; its figure 16 shows that they fall with the effective
bandwidth, up to a limit. Noise multiplies times, so the logarithm is fitted::

    log time = c + log(1 + (exp(s) - 1) u) + d r

``u`` is ``1 / bandwidth``, scaled to 0 for the fastest and to 1 for the slowest links with samples.
So ``s`` is the logarithm of the slowdown between both. ``r`` is the position of the run in time,
from -1/2 to 1/2, and ``d`` the drift of the workload. Without ``d``, a workload that slowly becomes
slower would look sensitive if its first runs had good links and its last runs bad ones.

Example: 0.10 s with 50 GB/s and 0.16 s with 10 GB/s give ``exp(s) = 1.6``. At 25 GB/s, where
``1 / bandwidth`` is 0.04 between 0.02 and 0.1, ``u`` is 0.25 and the time 0.115 s.
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from math import exp, log, log1p
from statistics import median
from typing import Final, NamedTuple

from gputopo.profiles.estimate import Estimate
from gputopo.profiles.runs import without_outliers

MIDDLE: Final = 0.5
"""Value of ``u`` that divides fast and slow links."""

DRIFT_PER_RUN: Final = 0.01
"""Assumed standard deviation of the drift from one run to the next."""

_STEPS: Final = 6
_LOWEST: Final = -3.0  # a factor of 20
_HIGHEST: Final = 6.0  # a factor of 400
_LEAST_TIME: Final = 1e-3


class RunPoint(NamedTuple):
    """One run: ``u``, ``r``, the logarithm of its time, and the variance of this logarithm."""

    slowness: float
    position: float
    log_time: float
    variance: float


class Line(NamedTuple):
    """The law through two points ``(u, logarithm of the time)``."""

    one: tuple[float, float]
    other: tuple[float, float]

    def log_time(self, slowness: float) -> float:
        """Return the logarithm of the time at ``u``; times that are not positive are cut off."""
        (u1, log1), (u2, log2) = self.one, self.other
        rise = exp(_limited(log2 - log1)) - 1
        return log1 + log(max(_LEAST_TIME, 1 + rise * (slowness - u1) / (u2 - u1)))


def robust_line(points: Iterable[RunPoint]) -> Line:
    """Return the law through the medians of the runs on fast and on slow links.

    This is the resistant line of Tukey (Exploratory Data Analysis, 1977).
    """
    sides: tuple[list[RunPoint], list[RunPoint]] = ([], [])
    for point in points:
        sides[point.slowness >= MIDDLE].append(point)
    one, other = (
        (median(run.slowness for run in side), median(run.log_time for run in side))
        for side in sides
    )
    return Line(one, other)


def fit_slowdown(points: Sequence[RunPoint]) -> Estimate | None:
    """Return the logarithm of the slowdown from ``u = 0`` to ``u = 1``.

    There must be points on both sides of ``MIDDLE``, and at least three. None if all runs of one
    side are outliers: two runs disagree so much that one of them must be wrong.

    The drift has the normal prior distribution with deviation ``n * DRIFT_PER_RUN`` for ``n``
    runs. It acts as one more point, so ``n + 1`` points determine three parameters.
    """
    line = robust_line(points)
    residuals = [point.log_time - line.log_time(point.slowness) for point in points]
    kept = list(compress(points, without_outliers(residuals)))
    if len({point.slowness >= MIDDLE for point in kept}) == 1:
        return None
    slowdown = _limited(line.log_time(1) - line.log_time(0))
    variance, squares, freedom = 0.0, 0.0, len(kept) - 2
    for _ in range(_STEPS):
        # If runs scatter more than assumed, the drift is still as assumed. So its weight grows.
        step, variance, squares = _newton_step(kept, slowdown, max(1.0, squares / freedom))
        slowdown = _limited(slowdown + min(1.0, max(-1.0, step)))
    return Estimate(slowdown, variance, squares, freedom)


def _newton_step(
    points: Sequence[RunPoint], slowdown: float, scale: float
) -> tuple[float, float, float]:
    """Return the change of ``s``, its variance, and the squares of the residuals after it.

    ``scale`` is the variance of runs relative to the assumed one.
    """
    rise = exp(slowdown) - 1
    matrix = [[0.0] * 4 for _ in range(3)]  # normal equations: upper triangle and right side
    matrix[2][2] = scale / (len(points) * DRIFT_PER_RUN) ** 2
    squares = 0.0
    for slowness, position, log_time, variance in points:
        residual = log_time - log1p(rise * slowness)
        squares += residual**2 / variance
        row = (1.0, (rise + 1) * slowness / (1 + rise * slowness), position, residual)
        for i in range(3):
            for j in range(i, 4):
                matrix[i][j] += row[i] * row[j] / variance
    return _solution(matrix, squares)


def _solution(matrix: list[list[float]], squares: float) -> tuple[float, float, float]:
    """Solve the equations for the second of three unknowns, after eliminating the others."""
    (a, b, c, x), (_, d, e, y), (_, _, f, z) = matrix
    d, e, f, y, z = d - b * b / a, e - b * c / a, f - c * c / a, y - b * x / a, z - c * x / a
    pivot, side = d - e * e / f, y - e * z / f
    rest = squares - x * x / a - z * z / f - side * side / pivot
    return side / pivot, 1 / pivot, max(0.0, rest)


def _limited(slowdown: float) -> float:
    return min(_HIGHEST, max(_LOWEST, slowdown))
