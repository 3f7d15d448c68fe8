"""Synergy-Opt and the solver beneath it."""

import sys
from math import inf

import pytest

from allocations import matrix, two_speeds
from benchmarks.contention import contended
from gputopo.sizing.model import ServerCapacity, SizingRequest
from gputopo_simulate.synergy.comparison.opt import opt, upper_bound
from gputopo_simulate.synergy.comparison.solver import LinearProgram, SolverMissingError, solve

DGX = ServerCapacity("s1", 8, 24, 500)


def test_a_program_is_solved_in_fractions_or_in_whole_numbers() -> None:
    gains, columns, limits = [3, 2], [[(0, 2.0)], [(0, 2.0)]], [(-inf, 3.0)]
    fractions = solve(LinearProgram(gains, columns, limits, binary=False))
    assert (fractions.values, fractions.bound) == ((1, 0.5), 4)
    whole = solve(LinearProgram(gains, columns, limits, binary=True))
    assert (whole.values, whole.bound) == ((1, 0), 3)


def test_a_program_without_a_solution_is_an_error_that_says_so() -> None:
    with pytest.raises(RuntimeError, match="HiGHS: Infeasible"):
        solve(LinearProgram([1], [[(0, 1.0)]], [(2.0, 3.0)], binary=False))


def test_without_the_solver_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolverMissingError, match=r"pip install 'gputopo\[opt\]'"):
        opt([DGX], [SizingRequest("j", two_speeds(1, (3, 62.5), (6, 62.5), 2.0))])


def test_the_bound_takes_all_servers_for_one() -> None:
    servers = [ServerCapacity("s1", 1, 3, 60), ServerCapacity("s2", 1, 3, 60)]
    greedy = SizingRequest("greedy", matrix(1, [2, 4], [60], [1], [7]))
    calm = SizingRequest("calm", matrix(1, [2], [60], [1]))
    assert upper_bound(servers, [greedy, calm]) == pytest.approx(8)
    assert [grant.throughput for grant in opt(servers, [greedy, calm]).assignments] == [1, 1]


def test_nobody_asks_for_nothing() -> None:
    assert upper_bound([DGX], []) == 0
    assert opt([DGX], []).assignments == ()


@pytest.mark.parametrize("number", range(20, 32))
def test_each_job_of_the_first_program_that_fits_whole_is_not_split(number: int) -> None:
    """The theorem: at most three split jobs a server. Rounding adds none of one GPU."""
    servers, requests = contended(number)
    biggest = min(server.gpus for server in servers)
    split = [grant for grant in opt(servers, requests).assignments if len(grant.parts) > 1]
    assert len(split) <= 3 * len(servers)
    assert biggest == 8
