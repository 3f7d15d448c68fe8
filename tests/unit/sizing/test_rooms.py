"""Finding GPUs on servers that fill."""

import math

from allocations import matrix
from gputopo.sizing.fit import best_fit, first_fit, fit_by_gpus, split_over_servers
from gputopo.sizing.model import Resources, SizingRequest
from gputopo.sizing.options import Option, OptionChoice, options_of
from gputopo.sizing.prices import Prices
from gputopo.sizing.server_state import ServerState, Slots
from gputopo.sizing.spread import PlacementOrder, place_jobs

NOTHING = Option(0, 0, 0, 1, 1)


def room(name: str, gpus: int, cpus: float = 99) -> ServerState:
    return ServerState(name, gpus, Resources(cpus, 999, math.inf))


def named(slots: Slots | None) -> list[tuple[str, int]] | None:
    return None if slots is None else [(each.name, gpus) for each, gpus in slots]


def cpus(count: float) -> Option:
    return NOTHING._replace(cpus=count)


def test_first_fit_takes_the_first_and_best_fit_the_fullest_that_suffices() -> None:
    rooms = [room("small", 1), room("big", 8), room("poor", 4, 1), room("just", 4)]
    assert named(first_fit(rooms, 3, cpus(3))) == [("big", 3)]
    assert named(best_fit(rooms, 3, cpus(3))) == [("just", 3)]
    assert named(best_fit(rooms, 3, cpus(1))) == [("poor", 3)]


def test_of_servers_with_as_many_gpus_the_one_with_fewer_cpus_fits_best() -> None:
    rooms = [room("roomy", 4, 20), room("snug", 4, 10)]
    assert named(best_fit(rooms, 3, cpus(3))) == [("snug", 3)]


def test_a_split_uses_the_fewest_servers_and_each_gpu_has_its_part() -> None:
    rooms = [room("a", 2), room("b", 5, 6), room("c", 8, 9)]
    assert named(split_over_servers(rooms, 6, cpus(18))) == [("c", 3), ("a", 2), ("b", 1)]
    assert named(split_over_servers(rooms, 6, cpus(6))) == [("c", 6)]


def test_nothing_fits_where_there_is_not_enough_in_all_or_for_one_gpu() -> None:
    rooms = [room("a", 2, 3), room("b", 2, 3)]
    assert split_over_servers(rooms, 3, cpus(9)) is None
    assert split_over_servers(rooms, 4, cpus(16)) is None
    assert split_over_servers(rooms, 1, cpus(4)) is None


def test_gpus_alone_are_found_on_the_fullest_server_or_split_over_the_emptiest() -> None:
    rooms = [room("a", 2), room("b", 5), room("c", 3)]
    assert named(fit_by_gpus(rooms, 3)) == [("c", 3)]
    assert named(fit_by_gpus(rooms, 9)) == [("b", 5), ("c", 3), ("a", 1)]


def test_amounts_that_fractions_put_a_hair_over_still_fit() -> None:
    part = room("a", 3, 1.0)
    for _ in range(3):
        assert part.has_free(cpus(1), 1 / 3)
        part.take(cpus(1), 1 / 3)
    assert not part.is_overcommitted
    assert not part.has_free(cpus(1), 1 / 3)


def test_whoever_finds_gpus_but_nothing_beside_them_has_others_go_back() -> None:
    """Both are to have all CPUs, as nobody sees to it that targets fit together."""
    request = SizingRequest("j", matrix(1, [2, 4], [20], [1], [3]))
    menu = options_of(request, Resources(2, 20, math.inf))
    targets = [OptionChoice(request, menu, menu.efficient[1]) for _ in range(2)]
    tenants = place_jobs([room("s", 2, 4)], targets, Prices(1, 0, 0), PlacementOrder.LARGEST_GAIN)
    assert [tenant.option.cpus for tenant in tenants] == [2, 2]
