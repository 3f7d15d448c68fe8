"""Mechanisms that pass jobs over: greedy, DRF and Tetris."""

import pytest

from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult
from gputopo_simulate.synergy.mechanisms import MECHANISMS
from support.sizing import matrix, two_speeds

DGX = ServerCapacity("s1", 8, 24, 500)


def fixed(job: str, gpus: int, cpus: float, memory_gb: float) -> SizingRequest:
    return SizingRequest(job, matrix(gpus, [cpus], [memory_gb], [1]))


def run_mechanism(
    name: str, servers: list[ServerCapacity], requests: list[SizingRequest]
) -> SizingResult:
    return MECHANISMS[name](servers, requests)


def ran(result: SizingResult) -> list[str]:
    return [each.job for each in result.assignments]


def where(result: SizingResult) -> dict[str, list[str]]:
    return {each.job: [part.server for part in each.parts] for each in result.assignments}


def test_greedy_passes_over_a_job_whose_demand_does_not_fit() -> None:
    requests = [fixed("a", 1, 20, 20), fixed("b", 1, 5, 20), fixed("c", 1, 4, 20)]
    result = run_mechanism("greedy", [DGX], requests)
    assert (ran(result), result.waiting) == (["a", "c"], ("b",))


def test_greedy_takes_the_first_server_that_fits() -> None:
    servers = [DGX, ServerCapacity("s2", 1, 3, 60)]
    assert where(run_mechanism("greedy", servers, [fixed("a", 1, 3, 60)])) == {"a": ["s1"]}


@pytest.mark.parametrize("name", ["greedy", "drf", "tetris"])
def test_job_gets_its_share_if_the_idle_cluster_lacks_its_demand(name: str) -> None:
    job = SizingRequest("j", two_speeds(8, (24, 500), (96, 500), 2.0))
    (each,) = run_mechanism(name, [DGX], [job]).assignments
    assert each.throughput == 1


@pytest.mark.parametrize("name", ["greedy", "drf", "tetris"])
def test_job_is_split_if_no_server_has_its_demand(name: str) -> None:
    servers = [DGX, ServerCapacity("s2", 8, 24, 500)]
    assert where(run_mechanism(name, servers, [fixed("j", 4, 48, 100)])) == {"j": ["s1", "s2"]}


def test_drf_runs_the_smallest_dominant_share_first() -> None:
    requests = [
        fixed("most of the GPUs", 7, 1, 20),
        fixed("half of the memory", 1, 1, 250),
        fixed("a third of the CPUs", 1, 8, 20),
        fixed("more than half of the memory", 1, 1, 260),
    ]
    result = run_mechanism("drf", [DGX], requests)
    assert ran(result) == ["half of the memory", "a third of the CPUs"]


def test_queue_order_decides_between_equal_dominant_shares() -> None:
    requests = [fixed(job, 5, 1, 20) for job in ("z", "a")]
    assert ran(run_mechanism("drf", [DGX], requests)) == ["z"]


def test_tetris_packs_the_demand_that_aligns_best_with_free_resources() -> None:
    servers = [ServerCapacity("s1", 2, 24, 100)]
    memory, cpus, both = fixed("m", 1, 1, 60), fixed("c", 1, 12, 10), fixed("b", 1, 12, 60)
    result = run_mechanism("tetris", servers, [memory, cpus, both])
    assert (ran(result), result.waiting) == (["c", "b"], ("m",))


def test_tetris_counts_limited_storage_bandwidth() -> None:
    servers = [ServerCapacity("s1", 1, 24, 100, 400)]
    reads = SizingRequest("reads", matrix(1, [2], [10], [1]), 300)
    assert ran(run_mechanism("tetris", servers, [fixed("insensitive", 1, 8, 20), reads])) == [
        "reads"
    ]
