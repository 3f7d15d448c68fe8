"""One process of a job reports."""

import types
from typing import Any

import pytest

from gputopo_steps.rank import is_reporting_rank


def torch(*, available: bool = True, initialized: bool = True, rank: int = 0) -> dict[str, Any]:
    """Return the imported modules of a process of torch; an unavailable one has no more names."""
    functions: dict[str, Any] = {"is_available": lambda: available}
    if available:
        functions |= {"is_initialized": lambda: initialized, "get_rank": lambda: rank}
    return {"torch.distributed": types.SimpleNamespace(**functions)}


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"])
@pytest.mark.parametrize("rank", ["1", "7", "10", " 3 ", "08"])
def test_process_of_a_rank_above_zero_is_silent(name: str, rank: str) -> None:
    assert not is_reporting_rank({name: rank}, {})


@pytest.mark.parametrize("rank", ["0", "00", "", "-1", "none"])
def test_rank_zero_and_values_that_are_no_rank_report(rank: str) -> None:
    assert is_reporting_rank({"RANK": rank, "LOCAL_RANK": rank}, {})


def test_process_without_a_launcher_reports() -> None:
    assert is_reporting_rank({}, {})


def test_first_process_of_a_second_pod_is_silent() -> None:
    assert not is_reporting_rank({"RANK": "8", "LOCAL_RANK": "0"}, {})


@pytest.mark.parametrize(
    ("modules", "reports"),
    [
        (torch(rank=0), True),
        (torch(rank=3), False),
        (torch(rank=3, initialized=False), True),
        (torch(available=False), True),
        ({"torch.distributed": types.SimpleNamespace()}, True),
    ],
    ids=["rank 0", "rank 3", "no process group", "not available", "half imported"],
)
def test_rank_of_torch_decides_for_processes_without_a_variable(
    modules: dict[str, Any], *, reports: bool
) -> None:
    assert is_reporting_rank({}, modules) is reports


@pytest.mark.parametrize(
    ("variables", "reports"),
    [("LOCAL_RANK", True), ("RANK", False), ("LOCAL_RANK, MY_RANK", False), ("", True)],
)
def test_override_names_the_only_variables_that_decide(variables: str, *, reports: bool) -> None:
    environ = {"RANK": "8", "LOCAL_RANK": "0", "MY_RANK": "2"}
    environ["GPUTOPO_STEPS_RANK_VARIABLES"] = variables
    assert is_reporting_rank(environ, torch(rank=8)) is reports
