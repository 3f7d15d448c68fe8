"""Fits the time per step against the bandwidth of the links, and finds the slowdown.

A step computes and communicates. Communication takes ``v / bandwidth``, and the part that the
computation hides takes no time. So the time per step is constant for fast links, and rises linearly
with ``1 / bandwidth`` from some bandwidth on; MAPA's figure 16 has such curves::

    time(u) = time(0) * (1 + s * max(0, u - h) / (1 - h))

``u`` is the slowness: ``1 / bandwidth``, scaled to 0 for the best and to 1 for the worst links of
the nodes. ``s`` is the slowdown from the best to the worst links. ``h`` is the highest slowness at
which the computation still hides all communication.

Example: a step takes 0.10 s with 50 GB/s, the best links, and 0.16 s with 10 GB/s, the worst. So s
is 0.6. For 25 GB/s, u is (1/25 - 1/50) / (1/10 - 1/50) = 0.25. The time with 25 GB/s is 0.115 s if
h = 0, and 0.10 s if h = 0.25.

The misfit of a curve is the weighted sum of its squared residuals. The misfit of a value of ``s``
is the least misfit of all curves with this ``s``. The 95 % interval of ``s`` is the
profile-likelihood interval (Davison, Statistical Models, 2003, section 4.5.2): it contains each
``s`` whose misfit is at most ``q^2`` above the least misfit, with a quantile ``q`` of Student's
distribution.
"""

from collections.abc import Callable, Sequence
from math import exp, inf, log, log1p
from typing import Final, NamedTuple

from gputopo.profiles.nonnegative import nonnegative_minimum
from gputopo.profiles.regression import Column, dot

HIDDEN: Final = (0.0, 0.25, 0.5, 0.75)
"""Values of ``h``; more values would not change the interval much."""

_LOWEST: Final = log(0.5)
_HIGHEST: Final = log(50.0)
_STEP: Final = 0.2
_GRID: Final = [_LOWEST + _STEP * index for index in range(round((_HIGHEST - _LOWEST) / _STEP) + 1)]
"""Values of ``log(1 + s)``."""

_HALVINGS: Final = 14


class LinkCurve(NamedTuple):
    """``log(1 + s)`` and ``h``."""

    log_slowdown: float
    hidden: float


class LinkSlowdown(NamedTuple):
    """``log(1 + s)`` and its 95 % interval. An end that samples do not determine is infinite."""

    value: float
    interval: tuple[float, float]


class CurveMisfit(NamedTuple):
    """The misfit of a curve as a quadratic form: ``v' products v``.

    ``v`` is ``(1, -log times of the curve, -effects)``. The effects of neighbours are those
    with the least misfit, but at least 0, because no neighbour makes a workload faster.

    Attributes:
        slowness: the different values of ``u`` in the samples. ``v`` has one log time for each.
        products: matrix from :meth:`gputopo.profiles.regression.Regression.products`.
        deviations: prior deviation of each effect.
    """

    slowness: Sequence[float]
    products: Sequence[Column]
    deviations: Sequence[float] = ()

    @property
    def shapes(self) -> list[float]:
        """Values of ``h`` below the highest slowness. A curve with a higher ``h`` is constant."""
        return [hidden for hidden in HIDDEN if hidden < max(self.slowness)]

    def of(self, log_slowdown: float, hidden: float) -> float:
        """Return the misfit of the curve with these values of ``log(1 + s)`` and ``h``."""
        curve = [1.0, *(-each for each in log_times(self.slowness, log_slowdown, hidden))]
        rows = [dot(curve, row) for row in self.products]
        misfit, targets = dot(curve, rows), rows[len(curve) :]
        if not any(each > 0 for each in targets):  # the best effects are 0
            return misfit
        effects = nonnegative_minimum(self._matrix(len(curve)), targets)
        # An effect above 0 has the slope 0, so c' M c = t' c for effects c, matrix M and targets t.
        return misfit - dot(targets, effects)

    def _matrix(self, first: int) -> list[Column]:
        matrix = [list(row[first:]) for row in self.products[first:]]
        for index, deviation in enumerate(self.deviations):
            matrix[index][index] += 1 / deviation**2
        return matrix


def log_times(slowness: Sequence[float], log_slowdown: float, hidden: float) -> Column:
    """Return the logarithms of the times of a curve, relative to the best links."""
    rise = (exp(log_slowdown) - 1) / (1 - hidden)
    return [log1p(rise * max(0.0, each - hidden)) for each in slowness]


def best_curve(misfit: CurveMisfit) -> LinkCurve:
    """Return the curve with the least misfit. At least one slowness must be above 0."""
    value, hidden = min(
        ((each, hidden) for hidden in misfit.shapes for each in _GRID),
        key=lambda curve: misfit.of(*curve),
    )
    return LinkCurve(
        _minimum(lambda each: misfit.of(each, hidden), value - _STEP, value + _STEP), hidden
    )


def slowdown_interval(misfit: CurveMisfit, curve: LinkCurve, most: float) -> tuple[float, float]:
    """Return the least and the greatest slowdown that fit the samples nearly as well as the best.

    Args:
        misfit: how badly each slowdown fits the samples.
        curve: the slowdown with the least misfit.
        most: by how much the misfit of a slowdown may exceed that of ``curve``.

    An end of the interval is infinite if even the lowest or highest slowdown of ``_GRID`` fits.
    """
    limit = misfit.of(*curve) + most

    def is_inside(log_slowdown: float) -> bool:
        return any(misfit.of(log_slowdown, hidden) <= limit for hidden in misfit.shapes)

    inside = [curve.log_slowdown, *filter(is_inside, _GRID)]
    low, high = min(inside), max(inside)
    return (
        -inf if low <= _GRID[0] else _edge(is_inside, low, low - _STEP),
        inf if high >= _GRID[-1] else _edge(is_inside, high, high + _STEP),
    )


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of a function with one minimum in an interval (ternary search)."""
    for _ in range(_HALVINGS):
        third = (high - low) / 3
        if function(low + third) <= function(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


def _edge(is_inside: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the edge of an interval between a value inside and one outside (bisection)."""
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_inside(middle) else (inside, middle)
    return (inside + outside) / 2
