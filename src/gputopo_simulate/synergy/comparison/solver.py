"""Linear programs, whole-numbered or not, by HiGHS: an extra, since only comparisons need it."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from types import ModuleType
from typing import Final, TypeAlias

from gputopo.errors import GputopoError

Column: TypeAlias = Sequence[tuple[int, float]]
"""Where a variable stands: rows, and its factor in each."""

_OPTIONS: Final = {
    "output_flag": False,
    "threads": 1,
    "solver": "simplex",  # ends on a vertex
    "mip_rel_gap": 1e-6,
    "mip_max_nodes": 100_000,  # a limit of time would make answers depend on the machine
}


class SolverMissingError(GputopoError):
    """HiGHS is not installed."""


@dataclass(frozen=True, slots=True)
class Program:
    """Find 0 <= x <= 1 with the most gain, such that every row's sum is between its limits.

    Attributes:
        gains: of each variable.
        columns: of each variable.
        limits: least and most of each row; infinite for none.
        whole: whether every x is 0 or 1.
    """

    gains: Sequence[float]
    columns: Sequence[Column]
    limits: Sequence[tuple[float, float]]
    whole: bool


@dataclass(frozen=True, slots=True)
class Solution:
    """The best found.

    Attributes:
        values: of the variables: a vertex, where they need not be whole.
        bound: no solution has a higher gain.
    """

    values: tuple[float, ...]
    bound: float


def solve(program: Program) -> Solution:
    """Return the best solution, the same each time.

    Raises:
        SolverMissingError: HiGHS is not installed.
        RuntimeError: there is no solution, or none was found.
    """
    highspy = _solver()
    highs = highspy.Highs()
    for option, value in _OPTIONS.items():
        highs.setOptionValue(option, value)
    highs.passModel(_model(highspy, program))
    highs.run()
    found = highs.getInfo()
    if found.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        raise RuntimeError(f"HiGHS: {highs.modelStatusToString(highs.getModelStatus())}")
    bound = found.mip_dual_bound if program.whole else found.objective_function_value
    return Solution(tuple(highs.getSolution().col_value), bound)


def _solver() -> ModuleType:
    try:
        return import_module("highspy")  # takes a while, and few need it
    except ImportError as error:
        raise SolverMissingError(
            "the allocation 'opt' needs the solver HiGHS: pip install 'gputopo[opt]'"
        ) from error


def _model(highspy: ModuleType, program: Program) -> object:
    """Return the program as the solver has it."""
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
    model.a_matrix_.value_ = [factor for _, factor in entries]
    if program.whole:
        model.integrality_ = [highspy.HighsVarType.kInteger] * model.num_col_
    return model
