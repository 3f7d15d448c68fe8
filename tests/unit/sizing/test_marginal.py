"""The marginal mechanism and its steps: prices, spare resources, swaps."""

import math

import pytest

from gputopo.sizing.marginal import marginal
from gputopo.sizing.model import ResourceAmounts, ServerCapacity, SizingRequest
from gputopo.sizing.options import JobOptions, options_of
from gputopo.sizing.prices import Prices, find_prices
from gputopo.sizing.server_state import PlacedJob, ServerState
from gputopo.sizing.spare import assign_spare, reduce_overcommitted
from gputopo.sizing.swap import swap_jobs
from support.sizing import check_capacity, check_guarantees, matrix

SHARE = ResourceAmounts(2, 20, math.inf)
STEEP = SizingRequest("steep", matrix(1, [2, 4], [20], [1], [3]))
FLAT = SizingRequest("flat", matrix(1, [2, 4], [20], [2], [3]))
CONCAVE = SizingRequest("concave", matrix(1, [2, 3, 5, 8], [20], [1], [3], [4], [4.3]))


def options(request: SizingRequest) -> JobOptions:
    return options_of(request, SHARE)


def server_state(name: str, gpus: int, cpus: float, memory_gb: float = 1000) -> ServerState:
    return ServerState(name, gpus, ResourceAmounts(cpus, memory_gb, math.inf))


def placed(request: SizingRequest, at: int, *where: ServerState) -> PlacedJob:
    return PlacedJob(
        request, options(request), options(request).efficient[at], [(each, 1) for each in where]
    )


def test_resource_that_suffices_for_all_jobs_has_no_price() -> None:
    assert find_prices({options(STEEP): 3}, ResourceAmounts(12, 60, math.inf)) == (0, 0, 0)


def test_price_of_a_cpu_is_the_highest_gain_that_is_not_served() -> None:
    """Steep gains 1 per CPU, flat 0.25. Four spare CPUs go to the two steep jobs, none to flat."""
    prices = find_prices({options(STEEP): 2, options(FLAT): 1}, ResourceAmounts(10, 999, math.inf))
    assert prices == pytest.approx((0.25, 0, 0))
    assert prices.best_option(options(STEEP).efficient).cpus == 4
    assert prices.best_option(options(FLAT).efficient).cpus == 2


def test_each_scarce_resource_has_a_price() -> None:
    both = SizingRequest("both", matrix(1, [2, 4], [20, 40], [1, 2], [2, 4]))
    prices = find_prices({options(both): 4}, ResourceAmounts(10, 100, math.inf))
    assert prices.cpu > 0
    assert prices.memory_gb > 0
    assert prices.storage_mb_per_s == 0


def test_points_below_the_line_between_other_points_are_skipped() -> None:
    """6 CPUs gain 5 over 2 CPUs, 4 CPUs only 0.5: no price makes 4 CPUs the best choice."""
    convex = SizingRequest("convex", matrix(1, [2, 4, 6], [20], [1], [1.5], [6]))
    prices = find_prices({options(convex): 1}, ResourceAmounts(5, 999, math.inf))
    assert prices.cpu == pytest.approx(5 / 4)


def test_spare_resources_go_to_the_highest_gain_for_its_cost_first() -> None:
    server = server_state("s", 3, 11)
    steep, flat, concave = (placed(request, 0, server) for request in (STEEP, FLAT, CONCAVE))
    assign_spare([flat, concave, steep], Prices(1, 0, 0))
    assert [each.option.cpus for each in (steep, flat, concave)] == [4, 2, 5]
    assert server.cpus == 0


def test_job_on_two_servers_gets_more_only_if_both_have_it() -> None:
    pair = SizingRequest("pair", matrix(2, [4, 8], [40], [1], [3]))
    wide, narrow = server_state("wide", 1, 8), server_state("narrow", 1, 3)
    split = placed(pair, 0, wide, narrow)
    assign_spare([split], Prices(1, 0, 0))
    assert split.option.cpus == 4
    narrow.cpus += 1
    assign_spare([split], Prices(1, 0, 0))
    assert split.option.cpus == 8


def test_jobs_with_the_least_loss_are_reduced_until_a_server_is_not_overcommitted() -> None:
    server = server_state("s", 3, 8)
    steep, flat, concave = (placed(request, 1, server) for request in (STEEP, FLAT, CONCAVE))
    assert server.is_overcommitted
    reduce_overcommitted([server], Prices(1, 0, 0))
    assert [each.option.cpus for each in (steep, flat, concave)] == [2, 2, 3]


def test_reduced_job_does_not_overcommit_another_server() -> None:
    """With its least option the pair frees memory on one server and needs CPUs on the other."""
    pair = SizingRequest("pair", matrix(2, [2, 4], [40, 80], [0, 1], [1, 1]))
    one, other = server_state("one", 2, 5, 50), server_state("other", 2, 5, 50)
    split = placed(pair, 1, one, other)
    guest = placed(STEEP, 1, other)
    host = placed(FLAT, 0, one)
    assert (split.option[:2], one.is_overcommitted, other.is_overcommitted) == ((2, 80), True, True)
    reduce_overcommitted([one], Prices(1, 1, 0))
    assert (split.option[:2], guest.option.cpus, host.option.cpus) == ((4, 40), 2, 2)
    assert not any(each.is_overcommitted for each in (one, other))


def test_two_jobs_are_swapped_if_one_gains_and_the_other_loses_nothing() -> None:
    tight, wide = server_state("tight", 1, 3), server_state("wide", 1, 4)
    steep, flat = placed(STEEP, 0, tight), placed(FLAT, 0, wide)
    assert swap_jobs([flat, steep], [tight, wide])
    assert (steep.slots[0][0].name, steep.option.cpus) == ("wide", 4)
    assert (flat.slots[0][0].name, flat.option.cpus) == ("tight", 2)
    assert not swap_jobs([flat, steep], [tight, wide])


def test_jobs_of_different_sizes_or_on_several_servers_are_not_swapped() -> None:
    pair = SizingRequest("pair", matrix(2, [4], [40], [1]))
    tight, wide, third = (
        server_state("tight", 1, 3),
        server_state("wide", 2, 8),
        server_state("third", 1, 2),
    )
    steep = placed(STEEP, 0, tight)
    whole = PlacedJob(pair, options(pair), options(pair).efficient[0], [(wide, 2)])
    assert not swap_jobs([steep, whole], [tight, wide])
    whole.move([(wide, 1), (third, 1)], whole.option)
    assert not swap_jobs([steep, whole], [tight, wide, third])


def test_points_between_share_and_demand_are_used() -> None:
    """Each of three jobs gets one CPU above its share: the point with the highest gain per CPU."""
    servers = [ServerCapacity("s", 3, 9, 60)]
    requests = [SizingRequest(f"j{n}", CONCAVE.matrix) for n in range(3)]
    assert [each.throughput for each in marginal(servers, requests).assignments] == [3, 3, 3]


def test_large_jobs_are_split_so_that_others_use_the_memory_beside_the_parts() -> None:
    """On one server alone the large job would leave memory that no other job there can use."""
    servers = [ServerCapacity("s1", 4, 12, 400), ServerCapacity("s2", 4, 12, 400)]
    big = SizingRequest("big", matrix(4, [4], [40], [1]))
    small = [SizingRequest(f"h{n}", matrix(1, [1], [100, 180], [1, 9])) for n in range(4)]
    result = marginal(servers, [big, *small])
    check_capacity(servers, [big, *small], result)
    check_guarantees(servers, [big, *small], result)
    assert [each.throughput for each in result.assignments] == [1, 9, 9, 9, 9]


def test_job_that_does_not_run_with_its_share_still_gets_gpus() -> None:
    result = marginal(
        [ServerCapacity("s", 1, 1, 1)], [SizingRequest("j", matrix(1, [1], [9], [5]))]
    )
    assert [(each.throughput, each.parts[0][1:4]) for each in result.assignments] == [
        (0, (1, 1, 1))
    ]


def test_result_without_requests_is_empty() -> None:
    assert marginal([ServerCapacity("s", 1, 1, 1)], []).assignments == ()
