"""Regression with run errors against dense matrices."""

from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from gputopo.profiles.regression import Regression, RunErrors, cholesky, dot

RUNS = [[0, 1, 2], [3, 4], [5, 6, 7, 8]]
SHARED = [0.7, 0.2, 1.5]
DEVIATIONS = [5.0, 1.0, 0.3]
random = Random(1)  # noqa: S311 - test data
VARIANCES = [random.uniform(0.5, 2) for _ in range(9)]
COLUMNS = [[random.gauss(0, 1) for _ in range(9)] for _ in range(3)]
Y = [random.gauss(0, 1) for _ in range(9)]
OTHER = [random.gauss(0, 1) for _ in range(9)]

Matrix = NDArray[np.float64]


def errors() -> RunErrors:
    return RunErrors(RUNS, VARIANCES, SHARED)


def covariance() -> Matrix:
    matrix = np.diag(VARIANCES)
    for run, shared in zip(RUNS, SHARED, strict=True):
        matrix[np.ix_(run, run)] += shared
    return matrix


def precision() -> Matrix:
    columns = np.array(COLUMNS).T
    inverse = np.linalg.inv(covariance())
    return np.asarray(columns.T @ inverse @ columns + np.diag(np.array(DEVIATIONS) ** -2.0))


def test_the_worked_example() -> None:
    assert RunErrors([[0, 1]], [1, 1], [1]).solve([3, 0]) == [2, -1]


def test_covariance_of_runs_is_inverted() -> None:
    assert errors().solve(Y) == pytest.approx(np.linalg.solve(covariance(), Y))


def test_errors_are_divided_into_those_of_runs_and_of_samples() -> None:
    parts = errors().run_parts(Y)
    for run, shared, part in zip(RUNS, SHARED, parts, strict=True):
        inverse = np.linalg.inv(covariance()[np.ix_(run, run)])
        assert part == pytest.approx(shared * float((inverse @ np.array(Y)[run]).sum()))
    own = errors().own_parts(Y, parts)
    assert own[3] == pytest.approx(Y[3] - parts[1])


def test_variance_of_the_error_of_a_run_falls_with_its_samples() -> None:
    assert errors().run_variances[1] == pytest.approx(
        1 / (1 / 0.2 + 1 / VARIANCES[3] + 1 / VARIANCES[4])
    )


def test_coefficients_are_those_of_generalised_least_squares_with_a_prior() -> None:
    regression = Regression(COLUMNS, DEVIATIONS, errors())
    side = np.array(COLUMNS) @ np.linalg.solve(covariance(), Y)
    expected = np.linalg.solve(precision(), side)
    assert regression.coefficients(Y) == pytest.approx(expected)
    assert regression.residuals(Y) == pytest.approx(np.array(Y) - expected @ np.array(COLUMNS))
    assert regression.standard_deviations() == pytest.approx(
        np.sqrt(np.diag(np.linalg.inv(precision())))
    )


def test_products_use_the_covariance_that_includes_the_prior() -> None:
    columns = np.array(COLUMNS).T
    whole = covariance() + columns @ np.diag(np.array(DEVIATIONS) ** 2) @ columns.T
    pair = np.array([Y, OTHER])
    found = Regression(COLUMNS, DEVIATIONS, errors()).products([Y, OTHER])
    assert np.allclose(found, pair @ np.linalg.inv(whole) @ pair.T)


def test_cholesky_factor_needs_the_lower_part_only() -> None:
    assert cholesky([[4.0], [2.0, 5.0]]) == [[2.0], [1.0, 2.0]]


def test_inner_product_uses_the_first_elements() -> None:
    assert dot([1.0, 2.0], [3.0, 4.0, 5.0]) == 11.0
