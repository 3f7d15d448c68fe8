"""What one job could be given."""

from allocations import matrix, two_speeds
from gputopo.sizing.model import Resources, ServerCapacity, SizingRequest
from gputopo.sizing.options import OptionsCache, options_of

SHARE = Resources(3, 60, 100)


def amounts(request: SizingRequest) -> list[tuple[float, ...]]:
    return [option[:4] for option in options_of(request, SHARE).efficient]


def test_options_are_the_corners_of_the_matrix_that_keep_the_promise() -> None:
    job = matrix(1, [1, 3, 6, 9], [20, 60, 120], [1, 1, 1], [1, 2, 2], [1, 2, 3], [1, 2, 3])
    assert amounts(SizingRequest("j", job)) == [(3, 60, 0, 2), (6, 120, 0, 3)]


def test_the_first_option_is_the_one_within_the_share() -> None:
    job = matrix(1, [1, 3, 9], [20, 60, 120], [0, 0, 2], [0, 2, 2], [2, 2, 2])
    assert amounts(SizingRequest("j", job)) == [(3, 60, 0, 2), (1, 120, 0, 2), (9, 20, 0, 2)]


def test_what_the_demand_does_not_ask_for_is_not_in_the_cut() -> None:
    menu = options_of(SizingRequest("j", two_speeds(1, (1, 20), (12, 20), 2.0)), SHARE)
    assert menu.share[:4] == (3, 60, 0, 1)
    assert menu.trimmed_share[:4] == (3, 20, 0, 1)
    assert menu.demand[:4] == (12, 20, 0, 2)
    assert (menu.demand_exceeds_share, menu.demand.value) == (True, 2)


def test_a_demand_within_the_share_is_not_cut() -> None:
    menu = options_of(SizingRequest("j", matrix(1, [1], [20], [5])), SHARE)
    assert menu.trimmed_share == menu.demand
    assert not menu.demand_exceeds_share


def test_a_cut_that_would_break_the_promise_is_the_whole_share_and_the_demand_no_less() -> None:
    """Saturated by 9 CPUs with 20 GB, but with 3 CPUs it needs 60 GB to be as fast as promised."""
    job = matrix(1, [3, 9], [20, 60], [1, 2], [4, 4])
    menu = options_of(SizingRequest("j", job), SHARE)
    assert menu.trimmed_share[:4] == (3, 60, 0, 2)
    assert menu.demand[:4] == (9, 60, 0, 4)


def test_a_job_that_does_not_run_with_its_share_is_told_relative_to_its_best() -> None:
    menu = options_of(SizingRequest("j", matrix(1, [9], [20], [4])), SHARE)
    assert (menu.share.throughput, menu.demand.value) == (0, 1)
    assert [option[:4] for option in menu.efficient] == [(3, 60, 0, 0), (9, 20, 0, 4)]


def test_storage_is_asked_for_in_proportion_to_throughput() -> None:
    job = matrix(1, [3, 6], [60], [2], [4])
    assert amounts(SizingRequest("j", job, 160)) == [(3, 60, 80, 2), (6, 60, 160, 4)]


def test_where_storage_is_the_least_the_promise_is_what_its_share_yields() -> None:
    job = matrix(1, [1, 3, 6], [60], [1], [3], [4])
    assert amounts(SizingRequest("j", job, 200)) == [
        (3, 60, 100, 2),
        (3, 60, 150, 3),
        (6, 60, 200, 4),
    ]
    assert options_of(SizingRequest("j", job, 200), SHARE).share[:4] == (3, 60, 100, 2)


def test_jobs_of_one_matrix_share_a_menu_and_others_do_not() -> None:
    menus = OptionsCache([ServerCapacity("s", 8, 24, 480)])
    one, other = matrix(1, [1], [20], [5]), matrix(1, [2], [20], [5])
    assert menus.get(SizingRequest("a", one)) is menus.get(SizingRequest("b", one))
    assert menus.get(SizingRequest("a", one)) is not menus.get(SizingRequest("a", one, 10))
    assert menus.get(SizingRequest("a", one)).demand != menus.get(SizingRequest("b", other)).demand
