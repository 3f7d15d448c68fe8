"""The whole matrix used: prices, spare resources, changed places, and what comes of them."""

import math

import pytest

from allocations import check_books, check_promises, matrix
from gputopo.sizing.marginal import marginal
from gputopo.sizing.model import Resources, ServerCapacity, SizingRequest
from gputopo.sizing.options import JobOptions, options_of
from gputopo.sizing.prices import Prices, find_prices
from gputopo.sizing.server_state import PlacedJob, ServerState
from gputopo.sizing.spare import assign_spare, reduce_overcommitted
from gputopo.sizing.swap import swap_jobs

SHARE = Resources(2, 20, math.inf)
STEEP = SizingRequest("steep", matrix(1, [2, 4], [20], [1], [3]))
FLAT = SizingRequest("flat", matrix(1, [2, 4], [20], [2], [3]))
CONCAVE = SizingRequest("concave", matrix(1, [2, 3, 5, 8], [20], [1], [3], [4], [4.3]))


def menu(request: SizingRequest) -> JobOptions:
    return options_of(request, SHARE)


def room(name: str, gpus: int, cpus: float, memory_gb: float = 1000) -> ServerState:
    return ServerState(name, gpus, Resources(cpus, memory_gb, math.inf))


def tenant(request: SizingRequest, at: int, *where: ServerState) -> PlacedJob:
    return PlacedJob(
        request, menu(request), menu(request).efficient[at], [(each, 1) for each in where]
    )


def test_what_suffices_for_all_costs_nothing() -> None:
    assert find_prices({menu(STEEP): 3}, Resources(12, 60, math.inf)) == (0, 0, 0)


def test_a_cpu_is_worth_what_the_best_that_must_do_without_it_would_gain() -> None:
    """Steep gains 1 a CPU, flat 0.25: four CPUs over what both need buy steep's, not flat's."""
    prices = find_prices({menu(STEEP): 2, menu(FLAT): 1}, Resources(10, 999, math.inf))
    assert prices == pytest.approx((0.25, 0, 0))
    assert prices.best_option(menu(STEEP).efficient).cpus == 4
    assert prices.best_option(menu(FLAT).efficient).cpus == 2


def test_each_resource_that_is_short_has_a_price() -> None:
    both = SizingRequest("both", matrix(1, [2, 4], [20, 40], [1, 2], [2, 4]))
    prices = find_prices({menu(both): 4}, Resources(10, 100, math.inf))
    assert prices.cpu > 0
    assert prices.memory_gb > 0
    assert prices.storage_mb_per_s == 0


def test_points_below_the_line_between_others_are_no_steps_of_a_price() -> None:
    """From 2 CPUs to 6 is 5 more, over 4 only half of one: a price of 1 skips that point."""
    sagging = SizingRequest("sagging", matrix(1, [2, 4, 6], [20], [1], [1.5], [6]))
    prices = find_prices({menu(sagging): 1}, Resources(5, 999, math.inf))
    assert prices.cpu == pytest.approx(5 / 4)


def test_spare_goes_to_the_most_gain_for_its_price_and_then_to_the_next() -> None:
    server = room("s", 3, 11)
    steep, flat, concave = (tenant(request, 0, server) for request in (STEEP, FLAT, CONCAVE))
    assign_spare([flat, concave, steep], Prices(1, 0, 0))
    assert [each.option.cpus for each in (steep, flat, concave)] == [4, 2, 5]
    assert server.cpus == 0


def test_a_job_on_two_servers_has_more_only_where_both_have_it() -> None:
    pair = SizingRequest("pair", matrix(2, [4, 8], [40], [1], [3]))
    wide, narrow = room("wide", 1, 8), room("narrow", 1, 3)
    split = tenant(pair, 0, wide, narrow)
    assign_spare([split], Prices(1, 0, 0))
    assert split.option.cpus == 4
    narrow.cpus += 1
    assign_spare([split], Prices(1, 0, 0))
    assert split.option.cpus == 8


def test_who_loses_least_for_what_it_frees_goes_back_until_a_server_is_not_overdrawn() -> None:
    server = room("s", 3, 8)
    steep, flat, concave = (tenant(request, 1, server) for request in (STEEP, FLAT, CONCAVE))
    assert server.is_overcommitted
    reduce_overcommitted([server], Prices(1, 0, 0))
    assert [each.option.cpus for each in (steep, flat, concave)] == [2, 2, 3]


def test_a_way_back_that_takes_more_of_one_thing_does_not_overdraw_another_server() -> None:
    """Back at its share the pair frees memory on one server and needs a CPU on the other."""
    pair = SizingRequest("pair", matrix(2, [2, 4], [40, 80], [0, 1], [1, 1]))
    one, other = room("one", 2, 5, 50), room("other", 2, 5, 50)
    split = tenant(pair, 1, one, other)
    guest = tenant(STEEP, 1, other)
    host = tenant(FLAT, 0, one)
    assert (split.option[:2], one.is_overcommitted, other.is_overcommitted) == ((2, 80), True, True)
    reduce_overcommitted([one], Prices(1, 1, 0))
    assert (split.option[:2], guest.option.cpus, host.option.cpus) == ((4, 40), 2, 2)
    assert not any(each.is_overcommitted for each in (one, other))


def test_two_jobs_change_places_where_one_then_has_more_and_the_other_no_less() -> None:
    tight, wide = room("tight", 1, 3), room("wide", 1, 4)
    steep, flat = tenant(STEEP, 0, tight), tenant(FLAT, 0, wide)
    assert swap_jobs([flat, steep], [tight, wide])
    assert (steep.slots[0][0].name, steep.option.cpus) == ("wide", 4)
    assert (flat.slots[0][0].name, flat.option.cpus) == ("tight", 2)
    assert not swap_jobs([flat, steep], [tight, wide])


def test_jobs_of_other_sizes_or_on_several_servers_stay_where_they_are() -> None:
    pair = SizingRequest("pair", matrix(2, [4], [40], [1]))
    tight, wide, third = room("tight", 1, 3), room("wide", 2, 8), room("third", 1, 2)
    steep = tenant(STEEP, 0, tight)
    whole = PlacedJob(pair, menu(pair), menu(pair).efficient[0], [(wide, 2)])
    assert not swap_jobs([steep, whole], [tight, wide])
    whole.move([(wide, 1), (third, 1)], whole.option)
    assert not swap_jobs([steep, whole], [tight, wide, third])


def test_points_between_share_and_demand_are_used() -> None:
    """Tune has two speeds; here each of three has the point that gives most for one CPU."""
    servers = [ServerCapacity("s", 3, 9, 60)]
    requests = [SizingRequest(f"j{n}", CONCAVE.matrix) for n in range(3)]
    assert [grant.throughput for grant in marginal(servers, requests).assignments] == [3, 3, 3]


def test_big_jobs_are_split_so_that_others_use_the_memory_beside_them() -> None:
    """Whole, each would leave on its server memory that nobody there has a use for."""
    servers = [ServerCapacity("s1", 4, 12, 400), ServerCapacity("s2", 4, 12, 400)]
    big = SizingRequest("big", matrix(4, [4], [40], [1]))
    hungry = [SizingRequest(f"h{n}", matrix(1, [1], [100, 180], [1, 9])) for n in range(4)]
    outcome = marginal(servers, [big, *hungry])
    check_books(servers, [big, *hungry], outcome)
    check_promises(servers, [big, *hungry], outcome)
    assert [grant.throughput for grant in outcome.assignments] == [1, 9, 9, 9, 9]


def test_a_job_that_does_not_run_with_its_share_has_its_turn_all_the_same() -> None:
    outcome = marginal(
        [ServerCapacity("s", 1, 1, 1)], [SizingRequest("j", matrix(1, [1], [9], [5]))]
    )
    assert [(grant.throughput, grant.parts[0][1:4]) for grant in outcome.assignments] == [
        (0, (1, 1, 1))
    ]


def test_nobody_asks_for_nothing() -> None:
    assert marginal([ServerCapacity("s", 1, 1, 1)], []).assignments == ()
