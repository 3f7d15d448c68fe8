"""Linear regression with errors that the samples of one run share.

The model is ``y = C c + error``. Each coefficient c_j has the prior N(0, deviation_j^2). The error
of a sample is the sum of its own error, with variance v_i, and of the error of its run, with
variance t. So the covariance V of the errors has one block for each run, and the formula of
Sherman and Morrison inverts a block. With ``a_i = 1 / v_i`` and sums over the run::

    (V^-1 y)_i = a_i (y_i - sum_j a_j y_j / (1 / t + sum_j a_j))

Example: two samples of one run with v = 1 and t = 1 have V = [[2, 1], [1, 2]]. For y = (3, 0)
the sum of a_j y_j is 3, and 3 / (1 + 2) = 1. So V^-1 y = (2, -1).

Columns are lists of floats and have one value for each sample. The operator has no numpy.
"""

from collections.abc import Sequence
from math import sqrt
from operator import mul
from typing import TypeAlias

Column: TypeAlias = list[float]


def dot(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the inner product. Further elements of the longer sequence are ignored."""
    return float(sum(map(mul, one, other)))


class RunErrors:
    """The covariance of the errors of samples.

    Args:
        runs: positions of the samples of each run.
        variances: variance of the own error of each sample.
        shared: variance of the error of each run.
    """

    def __init__(
        self,
        runs: Sequence[Sequence[int]],
        variances: Sequence[float],
        shared: Sequence[float],
    ) -> None:
        self._runs = runs
        self._precisions = [1 / variance for variance in variances]
        #: Variance of the error of each run, given the errors of its samples.
        self.run_variances = [
            1 / (1 / variance + sum(self._precisions[index] for index in run))
            for run, variance in zip(runs, shared, strict=True)
        ]

    def solve(self, y: Sequence[float]) -> Column:
        """Return ``V^-1 y``."""
        own = self.own_parts(y, self.run_parts(y))
        return list(map(mul, self._precisions, own))

    def run_parts(self, y: Sequence[float]) -> Column:
        """Return the most probable error of each run, if ``y`` are the errors of the samples."""
        weighted = list(map(mul, self._precisions, y))
        return [
            variance * sum(weighted[index] for index in run)
            for run, variance in zip(self._runs, self.run_variances, strict=True)
        ]

    def own_parts(self, y: Sequence[float], run_parts: Sequence[float]) -> Column:
        """Return the errors of the samples without those of their runs."""
        result = list(y)
        for run, part in zip(self._runs, run_parts, strict=True):
            for index in run:
                result[index] -= part
        return result


class Regression:
    """The distribution of the coefficients of ``columns``, given their prior and the errors."""

    def __init__(
        self, columns: Sequence[Column], deviations: Sequence[float], errors: RunErrors
    ) -> None:
        self._columns, self._errors = columns, errors
        self._solved = [errors.solve(column) for column in columns]
        precision = [
            [dot(solved, other) for other in columns[: row + 1]]
            for row, solved in enumerate(self._solved)
        ]
        for row, deviation in enumerate(deviations):
            precision[row][row] += 1 / deviation**2
        self._factor = cholesky(precision)

    def coefficients(self, y: Sequence[float]) -> Column:
        """Return the most probable coefficients."""
        return back_substitution(self._factor, self._projection(y))

    def residuals(self, y: Sequence[float]) -> Column:
        """Return ``y - C c`` for the most probable coefficients."""
        coefficients = self.coefficients(y)
        rows = zip(y, *self._columns, strict=True)
        return [value - dot(row, coefficients) for value, *row in rows]

    def standard_deviations(self) -> Column:
        """Return the standard deviation of each coefficient."""
        count = len(self._columns)
        units = [[float(index == place) for place in range(count)] for index in range(count)]
        parts = [forward_substitution(self._factor, unit) for unit in units]
        return [sqrt(dot(part, part)) for part in parts]

    def products(self, columns: Sequence[Column]) -> list[Column]:
        """Return ``a' W b`` for any two columns a and b.

        W is the inverse of the covariance of y, including the scatter of the coefficients:
        ``W = V^-1 - V^-1 C (C' V^-1 C + prior)^-1 C' V^-1``.
        """
        solved = [self._errors.solve(column) for column in columns]
        parts = [self._projection(column) for column in columns]
        return [
            [
                dot(row, column) - dot(part, other)
                for column, other in zip(columns, parts, strict=True)
            ]
            for row, part in zip(solved, parts, strict=True)
        ]

    def _projection(self, y: Sequence[float]) -> Column:
        return forward_substitution(self._factor, [dot(solved, y) for solved in self._solved])


def cholesky(matrix: Sequence[Sequence[float]]) -> list[Column]:
    """Return the rows of L, where L L' is a positive definite matrix.

    ``matrix`` has the rows of this matrix up to the diagonal.
    """
    factor: list[Column] = []
    for index, row in enumerate(matrix):
        new: Column = []
        for value, above in zip(row[:index], factor, strict=True):
            new.append((value - dot(new, above)) / above[-1])
        new.append(sqrt(row[index] - dot(new, new)))
        factor.append(new)
    return factor


def forward_substitution(factor: Sequence[Column], y: Sequence[float]) -> Column:
    """Return ``L^-1 y``."""
    result: Column = []
    for row, value in zip(factor, y, strict=True):
        result.append((value - dot(result, row)) / row[-1])
    return result


def back_substitution(factor: Sequence[Column], y: Sequence[float]) -> Column:
    """Return ``L'^-1 y``."""
    result = list(y)
    for index in reversed(range(len(factor))):
        row = factor[index]
        result[index] /= row[-1]
        for place in range(index):
            result[place] -= row[place] * result[index]
    return result
