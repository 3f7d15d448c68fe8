"""Solve linear programs with HiGHS, an optional dependency of Synergy-Opt."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from types import ModuleType
from typing import Final, TypeAlias

from gputopo.errors import GputopoError

Column: TypeAlias = Sequence[tuple[int, float]]
"""The non-zero coefficients of one variable, as pairs of row and coefficient."""

_OPTIONS: Final = {
    "output_flag": False,
    "threads": 1,
    "solver": "simplex",  # the simplex method returns a vertex
    "mip_rel_gap": 1e-6,
    "mip_max_nodes": 100_000,  # with a time limit, results would depend on the machine
}


class SolverMissingError(GputopoError):
    """HiGHS is not installed."""


@dataclass(frozen=True, slots=True)
class LinearProgram:
    """Maximize the sum of ``gains`` * x. Each variable x is in 0..1, and each row has limits.

    A row is the sum of coefficient * x over the variables.

    Attributes:
        gains: factor of each variable in the sum that is maximized.
        columns: for each variable, its coefficients as pairs (row, coefficient).
        limits: minimum and maximum of each row; infinite for no limit.
        binary: whether every x is 0 or 1.
    """

    gains: Sequence[float]
    columns: Sequence[Column]
    limits: Sequence[tuple[float, float]]
    binary: bool


@dataclass(frozen=True, slots=True)
class Solution:
    """The best solution found.

    Attributes:
        values: values of the variables; a vertex of the polytope unless the program is binary.
        bound: upper limit of the total gain of every solution.
    """

    values: tuple[float, ...]
    bound: float


def solve(program: LinearProgram) -> Solution:
    """Return the best solution. The same program always has the same solution.

    Raises:
        SolverMissingError: HiGHS is not installed.
        RuntimeError: the program has no solution, or HiGHS found none.
    """
    highspy = _import_solver()
    highs = highspy.Highs()
    for option, value in _OPTIONS.items():
        highs.setOptionValue(option, value)
    highs.passModel(_model(highspy, program))
    highs.run()
    found = highs.getInfo()
    if found.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        raise RuntimeError(f"HiGHS: {highs.modelStatusToString(highs.getModelStatus())}")
    bound = found.mip_dual_bound if program.binary else found.objective_function_value
    return Solution(tuple(highs.getSolution().col_value), bound)


def _import_solver() -> ModuleType:
    try:
        return import_module("highspy")  # here, because the import is slow and rarely needed
    except ImportError as error:
        raise SolverMissingError(
            "allocation: opt needs the solver HiGHS; install it with "
            f"{sys.executable} -m pip install 'gputopo[opt]'"
        ) from error


def _model(highspy: ModuleType, program: LinearProgram) -> object:
    model = highspy.HighsLp()
    model.sense_ = highspy.ObjSense.kMaximize
    model.num_col_, model.num_row_ = len(program.columns), len(program.limits)
    model.col_cost_ = list(program.gains)
    model.col_lower_ = [0.0] * model.num_col_
    model.col_upper_ = [1.0] * model.num_col_
    model.row_lower_ = [least for least, _ in program.limits]
    model.row_upper_ = [most for _, most in program.limits]
    entries = [entry for column in program.columns for entry in column]
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = list(accumulate(map(len, program.columns), initial=0))
    model.a_matrix_.index_ = [row for row, _ in entries]
    model.a_matrix_.value_ = [coefficient for _, coefficient in entries]
    if program.binary:
        model.integrality_ = [highspy.HighsVarType.kInteger] * model.num_col_
    return model
