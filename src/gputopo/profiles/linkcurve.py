"""Fits the time per step against the bandwidth of the links, and finds the slowdown.

A step computes and communicates. Communication takes ``v / bandwidth``, and the part that the
computation hides takes no time. So the time per step is constant for fast links, and rises linearly
with ``1 / bandwidth`` from some bandwidth on; MAPA's figure 16 has such curves::

    time(u) = time(0) * (1 + s * max(0, u^p - h) / (1 - h))

``u`` is the slowness: ``1 / bandwidth``, scaled to 0 for the best and to 1 for the worst links of
the nodes. ``s`` is the slowdown from the best to the worst links. ``h`` is the highest slowness at
which the computation still hides all communication. The power ``p`` is 1 if the predicted
bandwidths are right. The true bandwidth of links in between can differ by a third from the
prediction, so other powers are possible, too. They matter only without samples on the worst links.

Example: a step takes 0.10 s with 50 GB/s, the best links, and 0.16 s with 10 GB/s, the worst. So s
is 0.6. For 25 GB/s, u is (1/25 - 1/50) / (1/10 - 1/50) = 0.25. The time with 25 GB/s is 0.115 s if
h = 0, and 0.10 s if h = 0.25.

The misfit of a curve is the weighted sum of its squared residuals. The result is the ``s`` with the
least misfit, with any ``h`` and ``p = 1``. Its 95 % interval is the profile-likelihood interval
(Davison, Statistical Models, 2003, section 4.5.2): it contains each ``s`` whose misfit, with any
``h`` and ``p``, is at most ``q^2`` above the least misfit. ``q`` is a quantile of Student's
distribution.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import copysign, exp, inf, log, log1p
from typing import Final, NamedTuple

from gputopo.profiles.nonnegative import NonnegativeLeastSquares
from gputopo.profiles.regression import Column, dot


class CurveShape(NamedTuple):
    """``h`` and ``p``."""

    hidden: float
    power: float = 1.0

    def rise(self, slowness: float) -> float:
        """Return how much of the slowdown there is with this slowness: 0 to 1."""
        return max(0.0, float(slowness**self.power) - self.hidden) / (1 - self.hidden)


LINEAR: Final = CurveShape(0.0)

SHAPES: Final = (
    LINEAR,
    CurveShape(0.0, 0.7),
    CurveShape(0.0, 1.4),
    CurveShape(0.25),
    CurveShape(0.5),
    CurveShape(0.75),
)
"""More shapes would not change the interval much.

Example: links with 35 GB/s are predicted between 62 and 8 GB/s, so u is 0.11. With 25 GB/s in
reality, u would be 0.22, which is u^0.7.
"""

_LOWEST: Final = log(0.5)
_HIGHEST: Final = log(50.0)
_STEP: Final = 0.2
_GRID: Final = [_LOWEST + _STEP * index for index in range(round((_HIGHEST - _LOWEST) / _STEP) + 1)]
"""Values of ``log(1 + s)``."""

_HALVINGS: Final = 14
_EQUAL: Final = 0.01  # with a smaller difference of misfits, the lower h is taken


class LinkCurve(NamedTuple):
    """``log(1 + s)``, and the shape of the curve."""

    log_slowdown: float
    shape: CurveShape


class LinkSlowdown(NamedTuple):
    """``log(1 + s)`` and its 95 % interval. An end that samples do not determine is infinite."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class CurveMisfit:
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
    def shapes(self) -> list[CurveShape]:
        """Shapes with which at least one sample is slowed."""
        return [shape for shape in SHAPES if shape.rise(max(self.slowness)) > 0]

    def of(self, log_slowdown: float, shape: CurveShape) -> float:
        """Return the misfit of the curve with this ``log(1 + s)`` and this shape."""
        curve = [1.0, *(-each for each in log_times(self.slowness, log_slowdown, shape))]
        rows = [dot(curve, row) for row in self.products]
        misfit, targets = dot(curve, rows), rows[len(curve) :]
        if not any(each > 0 for each in targets):  # the best effects are 0
            return misfit
        effects = self._effects.minimum(targets)
        # An effect above 0 has the slope 0, so c' M c = t' c for effects c, matrix M and targets t.
        return misfit - dot(targets, effects)

    @cached_property
    def curves(self) -> list[LinkCurve]:
        """The curve with the least misfit of each shape."""
        return [_best_with(self, shape) for shape in self.shapes]

    @cached_property
    def _effects(self) -> NonnegativeLeastSquares:
        """The part of ``products`` for the effects, with their prior."""
        first = 1 + len(self.slowness)
        matrix = [list(row[first:]) for row in self.products[first:]]
        for index, deviation in enumerate(self.deviations):
            matrix[index][index] += 1 / deviation**2
        return NonnegativeLeastSquares(matrix)


def log_times(slowness: Sequence[float], log_slowdown: float, shape: CurveShape) -> Column:
    """Return the logarithms of the times of a curve, relative to the best links."""
    slowdown = exp(log_slowdown) - 1
    return [log1p(slowdown * shape.rise(each)) for each in slowness]


def best_curve(misfit: CurveMisfit) -> LinkCurve:
    """Return the curve with the least misfit and ``p = 1``. At least one slowness must exceed 0."""
    curves = [curve for curve in misfit.curves if curve.shape.power == 1]
    least = min(misfit.of(*curve) for curve in curves)
    return next(curve for curve in curves if misfit.of(*curve) <= least + _EQUAL)


def _best_with(misfit: CurveMisfit, shape: CurveShape) -> LinkCurve:
    value = min(_GRID, key=lambda each: misfit.of(each, shape))
    return LinkCurve(
        _minimum(lambda each: misfit.of(each, shape), value - _STEP, value + _STEP), shape
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
    ends = []
    for value, shape in misfit.curves:
        is_inside = partial(_fits, misfit, shape, limit)
        if is_inside(value):
            ends.append((_end(is_inside, value, -_STEP), _end(is_inside, value, _STEP)))
    lows, highs = zip(*ends, strict=True)
    return min(lows), max(highs)


def _fits(misfit: CurveMisfit, shape: CurveShape, limit: float, log_slowdown: float) -> bool:
    return misfit.of(log_slowdown, shape) <= limit


def _end(is_inside: Callable[[float], bool], value: float, step: float) -> float:
    """Return the end of an interval around ``value`` in the direction of ``step``."""
    while is_inside(value + step):
        value += step
        if not _LOWEST < value < _HIGHEST:
            return copysign(inf, step)
    return _edge(is_inside, value, value + step)


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
