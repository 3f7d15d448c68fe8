"""Synergy-Opt and its solver."""

import sys
from math import inf

import pytest

from benchmarks.contention import contended
from gputopo.sizing.model import ServerCapacity, SizingRequest
from gputopo_simulate.synergy.comparison.opt import opt, upper_bound
from gputopo_simulate.synergy.comparison.solver import LinearProgram, SolverMissingError, solve
from support.sizing import matrix, two_speeds

DGX = ServerCapacity("s1", 8, 24, 500)


def test_program_is_solved_with_fractions_or_binary_variables() -> None:
    gains, columns, limits = [3, 2], [[(0, 2.0)], [(0, 2.0)]], [(-inf, 3.0)]
    fractions = solve(LinearProgram(gains, columns, limits, binary=False))
    assert (fractions.values, fractions.bound) == ((1, 0.5), 4)
    whole = solve(LinearProgram(gains, columns, limits, binary=True))
    assert (whole.values, whole.bound) == ((1, 0), 3)


def test_program_without_a_solution_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="HiGHS: Infeasible"):
        solve(LinearProgram([1], [[(0, 1.0)]], [(2.0, 3.0)], binary=False))


def test_missing_solver_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolverMissingError, match=r"pip install 'gputopo\[opt\]'"):
        opt([DGX], [SizingRequest("j", two_speeds(1, (3, 62.5), (6, 62.5), 2.0))])


def test_bound_merges_all_servers_into_one() -> None:
    servers = [ServerCapacity("s1", 1, 3, 60), ServerCapacity("s2", 1, 3, 60)]
    sensitive = SizingRequest("sensitive", matrix(1, [2, 4], [60], [1], [7]))
    insensitive = SizingRequest("insensitive", matrix(1, [2], [60], [1]))
    assert upper_bound(servers, [sensitive, insensitive]) == pytest.approx(8)
    assert [each.throughput for each in opt(servers, [sensitive, insensitive]).assignments] == [
        1,
        1,
    ]


def test_result_without_requests_is_empty() -> None:
    assert upper_bound([DGX], []) == 0
    assert opt([DGX], []).assignments == ()


@pytest.mark.parametrize("number", range(20, 32))
def test_at_most_three_jobs_a_server_are_split(number: int) -> None:
    """The theorem of appendix A.1; rounding to whole GPUs adds no split job."""
    servers, requests = contended(number)
    biggest = min(server.gpus for server in servers)
    split = [each for each in opt(servers, requests).assignments if len(each.parts) > 1]
    assert len(split) <= 3 * len(servers)
    assert biggest == 8
