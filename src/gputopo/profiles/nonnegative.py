"""Least squares with coefficients that are not negative (Lawson and Hanson, 1974, chapter 23).

Example: without bounds, the minimum of ``c1^2 + c2^2 + c1 c2 - 2 c1 + c2`` is at (5/3, -4/3). With
bounds it is at (1, 0): the slope there is 0 for c1 and positive for c2.
"""

from collections.abc import Sequence
from typing import Final

from gputopo.profiles.regression import (
    Column,
    back_substitution,
    cholesky,
    dot,
    forward_substitution,
)

_FLAT: Final = 1e-9  # slopes below this part of the largest one are rounding errors


def nonnegative_minimum(matrix: Sequence[Column], target: Sequence[float]) -> Column:
    """Return the c with ``c >= 0`` and the least ``c' M c - 2 t' c``.

    Args:
        matrix: M, symmetric and positive definite.
        target: t.
    """
    best = [0.0] * len(target)
    free: list[int] = []
    least = _FLAT * max(map(abs, target), default=0.0)
    for _ in range(3 * len(target)):  # enough in practice; each round lowers the value
        slopes = [wanted - dot(row, best) for row, wanted in zip(matrix, target, strict=True)]
        steepest = max(
            (index for index in range(len(target)) if index not in free),
            key=lambda index: slopes[index],
            default=None,
        )
        if steepest is None or slopes[steepest] <= least:
            break
        free.append(steepest)
        best = _descend(matrix, target, best, free)
    return best


def _descend(
    matrix: Sequence[Column], target: Sequence[float], start: Column, free: list[int]
) -> Column:
    """Return the minimum over the coefficients in ``free``; remove those that become 0."""
    while True:
        found = _solve(matrix, target, free)
        negative = [index for index in free if found[index] <= 0]
        if not negative:
            return found
        step = min(start[index] / (start[index] - found[index]) for index in negative)
        start = [old + step * (new - old) for old, new in zip(start, found, strict=True)]
        free[:] = [index for index in free if index not in negative or start[index] > 0]


def _solve(matrix: Sequence[Column], target: Sequence[float], free: Sequence[int]) -> Column:
    factor = cholesky(
        [[matrix[row][column] for column in free[: place + 1]] for place, row in enumerate(free)]
    )
    solved = back_substitution(factor, forward_substitution(factor, [target[i] for i in free]))
    result = [0.0] * len(target)
    for index, value in zip(free, solved, strict=True):
        result[index] = value
    return result
