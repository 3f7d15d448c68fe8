"""Least squares with coefficients that are not negative (Lawson and Hanson, 1974, chapter 23).

Example: without bounds, the minimum of ``c1^2 + c2^2 + c1 c2 - 2 c1 + c2`` is at (5/3, -4/3). With
bounds it is at (1, 0): the slope there is 0 for c1 and positive for c2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gputopo.profiles.regression import (
    Column,
    back_substitution,
    cholesky,
    dot,
    forward_substitution,
)

_FLAT: Final = 1e-9  # slopes below this part of the largest one are rounding errors


@dataclass(frozen=True)
class NonnegativeLeastSquares:
    """Minima of ``c' M c - 2 t' c`` with ``c >= 0``, for one M and many t.

    Attributes:
        matrix: M, symmetric and positive definite.
    """

    matrix: Sequence[Column]
    _factors: dict[tuple[int, ...], list[Column]] = field(default_factory=dict, init=False)

    def minimum(self, target: Sequence[float]) -> Column:
        """Return the c with the least value for ``target``, which is t."""
        best = [0.0] * len(target)
        free: list[int] = []
        least = _FLAT * max(map(abs, target), default=0.0)
        for _ in range(3 * len(target)):  # enough in practice; each round lowers the value
            slopes = {
                index: target[index] - dot(self.matrix[index], best)
                for index in range(len(target))
                if index not in free
            }
            steepest = max(slopes, key=slopes.__getitem__, default=None)
            if steepest is None or slopes[steepest] <= least:
                break
            free.append(steepest)
            best = self._descend(target, best, free)
        return best

    def _descend(self, target: Sequence[float], start: Column, free: list[int]) -> Column:
        """Return the minimum over the coefficients in ``free``; remove those that become 0."""
        while True:
            found = self._solve(target, free)
            negative = [index for index in free if found[index] <= 0]
            if not negative:
                return found
            step = min(start[index] / (start[index] - found[index]) for index in negative)
            start = [old + step * (new - old) for old, new in zip(start, found, strict=True)]
            free[:] = [index for index in free if index not in negative or start[index] > 0]

    def _solve(self, target: Sequence[float], free: Sequence[int]) -> Column:
        factor = self._factor(tuple(free))
        solved = back_substitution(factor, forward_substitution(factor, [target[i] for i in free]))
        result = [0.0] * len(target)
        for index, value in zip(free, solved, strict=True):
            result[index] = value
        return result

    def _factor(self, free: tuple[int, ...]) -> list[Column]:
        """Return L of ``free``, kept because near targets have the same ``free``."""
        if free not in self._factors:
            self._factors[free] = cholesky(
                [
                    [self.matrix[row][column] for column in free[: place + 1]]
                    for place, row in enumerate(free)
                ]
            )
        return self._factors[free]
