"""Allocations that pass jobs over: greedy, DRF and Tetris; and the one of shares."""

import pytest

from allocations import matrix, two_speeds
from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult
from gputopo_simulate.synergy.mechanisms import MECHANISMS

DGX = ServerCapacity("s1", 8, 24, 500)


def fixed(job: str, gpus: int, cpus: float, memory_gb: float) -> SizingRequest:
    return SizingRequest(job, matrix(gpus, [cpus], [memory_gb], [1]))


def allocate(
    name: str, servers: list[ServerCapacity], requests: list[SizingRequest]
) -> SizingResult:
    return MECHANISMS[name](servers, requests)


def ran(outcome: SizingResult) -> list[str]:
    return [grant.job for grant in outcome.assignments]


def where(outcome: SizingResult) -> dict[str, list[str]]:
    return {grant.job: [part.server for part in grant.parts] for grant in outcome.assignments}


def test_shares_are_given_whether_needed_or_not() -> None:
    (grant,) = allocate("proportional", [DGX], [fixed("j", 2, 1, 20)]).assignments
    assert grant.parts == (("s1", 2, 6, 125, 0),)


def test_shares_fill_servers_that_others_are_on_already() -> None:
    servers = [ServerCapacity("s1", 8, 24, 500), ServerCapacity("s2", 8, 24, 500)]
    requests = [fixed("one", 1, 1, 1), fixed("six", 6, 1, 1), fixed("seven", 7, 1, 1)]
    assert where(allocate("proportional", servers, requests)) == {
        "one": ["s1"],
        "six": ["s2"],
        "seven": ["s1"],
    }


def test_greedy_passes_over_whose_demand_is_not_there_and_leaves_gpus_idle() -> None:
    requests = [fixed("a", 1, 20, 20), fixed("b", 1, 5, 20), fixed("c", 1, 4, 20)]
    outcome = allocate("greedy", [DGX], requests)
    assert (ran(outcome), outcome.waiting) == (["a", "c"], ("b",))


def test_greedy_takes_the_first_server_and_not_the_best() -> None:
    servers = [DGX, ServerCapacity("s2", 1, 3, 60)]
    assert where(allocate("greedy", servers, [fixed("a", 1, 3, 60)])) == {"a": ["s1"]}


@pytest.mark.parametrize("name", ["greedy", "drf", "tetris"])
def test_a_demand_that_no_idle_cluster_has_is_not_waited_for(name: str) -> None:
    job = SizingRequest("j", two_speeds(8, (24, 500), (96, 500), 2.0))
    (grant,) = allocate(name, [DGX], [job]).assignments
    assert grant.throughput == 1


@pytest.mark.parametrize("name", ["greedy", "drf", "tetris"])
def test_several_gpus_are_split_where_no_server_has_the_demand(name: str) -> None:
    servers = [DGX, ServerCapacity("s2", 8, 24, 500)]
    assert where(allocate(name, servers, [fixed("j", 4, 48, 100)])) == {"j": ["s1", "s2"]}


def test_drf_puts_first_who_asks_for_the_least_part_of_anything() -> None:
    requests = [
        fixed("most of the GPUs", 7, 1, 20),
        fixed("half of the memory", 1, 1, 250),
        fixed("a third of the CPUs", 1, 8, 20),
        fixed("more than half of the memory", 1, 1, 260),
    ]
    outcome = allocate("drf", [DGX], requests)
    assert ran(outcome) == ["half of the memory", "a third of the CPUs"]


def test_equals_by_dominant_share_go_in_the_order_of_the_asks() -> None:
    requests = [fixed(job, 5, 1, 20) for job in ("z", "a")]
    assert ran(allocate("drf", [DGX], requests)) == ["z"]


def test_tetris_packs_what_aligns_best_with_what_is_free() -> None:
    servers = [ServerCapacity("s1", 2, 24, 100)]
    memory, cpus, both = fixed("m", 1, 1, 60), fixed("c", 1, 12, 10), fixed("b", 1, 12, 60)
    outcome = allocate("tetris", servers, [memory, cpus, both])
    assert (ran(outcome), outcome.waiting) == (["c", "b"], ("m",))


def test_tetris_counts_storage_where_it_is_limited() -> None:
    servers = [ServerCapacity("s1", 1, 24, 100, 400)]
    reads = SizingRequest("reads", matrix(1, [2], [10], [1]), 300)
    assert ran(allocate("tetris", servers, [fixed("calm", 1, 8, 20), reads])) == ["reads"]
