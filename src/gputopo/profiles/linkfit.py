"""Fits how the time per training step depends on the bandwidth between the GPUs of a job.

The model is ``time = a + v / bandwidth``. ``a`` is the computing time, which does not depend on
links, and ``v`` is the data that the GPUs exchange in a step (compare Amdahl's law). MAPA (section
2.3) divides jobs into sensitive and insensitive ones by such times. Errors of measurement multiply
the time, so a weighted regression fits the logarithm of the time::

    log time = c + log(1 + (exp(s) - 1) u) + d r

``u`` is ``1 / bandwidth``, scaled to 0 for the fastest and to 1 for the slowest links with samples.
So ``exp(s)`` is the slowdown from the fastest to the slowest links, and ``c`` is the logarithm of
the time on the fastest links. ``r`` is the position of a run among all runs in time, from -1/2 to
1/2. ``d`` is the drift of the workload: how its speed changes with time. Without ``d``, a workload
that slowly becomes slower would look sensitive if its first runs had good links and its last runs
bad ones.

Example: a step takes 0.10 s at 50 GB/s and 0.16 s at 10 GB/s, so ``exp(s) = 1.6``. At 25 GB/s,
``u`` is ``(1/25 - 1/50) / (1/10 - 1/50) = 0.25``, and a step takes 0.115 s.
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from math import exp, log, log1p
from statistics import median
from typing import Final, NamedTuple

from gputopo.profiles.estimate import Estimate
from gputopo.profiles.runs import without_outliers

MIDDLE: Final = 0.5
"""Links with ``u`` below this value are fast, all others are slow."""

DRIFT_PER_RUN: Final = 0.01
"""Assumed standard deviation of the drift between two successive runs."""

_STEPS: Final = 6
_LOWEST: Final = -3.0  # a factor of 20
_HIGHEST: Final = 6.0  # a factor of 400
_LEAST_TIME: Final = 1e-3


class RunPoint(NamedTuple):
    """One run in the fit; ``slowness`` is 0 for the fastest links and 1 for the slowest links."""

    slowness: float
    position: float
    log_time: float
    variance: float


class Line(NamedTuple):
    """A curve ``time = a + v / bandwidth`` through two points ``(slowness, logarithm of time)``."""

    one: tuple[float, float]
    other: tuple[float, float]

    def log_time(self, slowness: float) -> float:
        """Return the logarithm of the time at ``slowness``. The time is kept above 0."""
        (u1, log1), (u2, log2) = self.one, self.other
        rise = exp(_limited(log2 - log1)) - 1
        return log1 + log(max(_LEAST_TIME, 1 + rise * (slowness - u1) / (u2 - u1)))


def robust_line(points: Iterable[RunPoint]) -> Line:
    """Return the curve through two medians: of the runs on fast and of those on slow links.

    Outliers hardly change medians (Tukey 1977, Exploratory Data Analysis: resistant line).
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
    """Return the logarithm of the slowdown from the fastest to the slowest links.

    ``points`` are three runs or more, with at least one on fast and one on slow links. Return None
    if all runs on fast links, or all on slow links, are outliers.

    The drift has a normal prior distribution with standard deviation ``n * DRIFT_PER_RUN`` for
    ``n`` runs. The prior acts as one more point, so ``n + 1`` points determine three parameters.
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
    """Return the next change of ``slowdown``, its variance, and the squared residuals after it.

    ``scale`` is the observed variance of the runs, divided by their assumed variance.
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
    """Solve normal equations; return the second unknown, its variance and the squared residuals."""
    (a, b, c, x), (_, d, e, y), (_, _, f, z) = matrix
    d, e, f, y, z = d - b * b / a, e - b * c / a, f - c * c / a, y - b * x / a, z - c * x / a
    pivot, side = d - e * e / f, y - e * z / f
    rest = squares - x * x / a - z * z / f - side * side / pivot
    return side / pivot, 1 / pivot, max(0.0, rest)


def _limited(slowdown: float) -> float:
    return min(_HIGHEST, max(_LOWEST, slowdown))
