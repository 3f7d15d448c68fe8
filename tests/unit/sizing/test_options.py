"""The options of one job."""

from gputopo.sizing.model import ResourceAmounts, ServerCapacity, SizingRequest
from gputopo.sizing.options import OptionsCache, options_of
from support.sizing import matrix, two_speeds

SHARE = ResourceAmounts(3, 60, 100)


def amounts(request: SizingRequest) -> list[tuple[float, ...]]:
    return [option[:4] for option in options_of(request, SHARE).efficient]


def test_efficient_options_are_the_corners_of_the_matrix_that_keep_the_guarantee() -> None:
    job = matrix(1, [1, 3, 6, 9], [20, 60, 120], [1, 1, 1], [1, 2, 2], [1, 2, 3], [1, 2, 3])
    assert amounts(SizingRequest("j", job)) == [(3, 60, 0, 2), (6, 120, 0, 3)]


def test_first_efficient_option_is_within_the_share() -> None:
    job = matrix(1, [1, 3, 9], [20, 60, 120], [0, 0, 2], [0, 2, 2], [2, 2, 2])
    assert amounts(SizingRequest("j", job)) == [(3, 60, 0, 2), (1, 120, 0, 2), (9, 20, 0, 2)]


def test_trimmed_share_has_no_more_than_the_demand() -> None:
    options = options_of(SizingRequest("j", two_speeds(1, (1, 20), (12, 20), 2.0)), SHARE)
    assert options.share[:4] == (3, 60, 0, 1)
    assert options.trimmed_share[:4] == (3, 20, 0, 1)
    assert options.demand[:4] == (12, 20, 0, 2)
    assert (options.demand_exceeds_share, options.demand.value) == (True, 2)


def test_trimmed_share_equals_a_demand_within_the_share() -> None:
    options = options_of(SizingRequest("j", matrix(1, [1], [20], [5])), SHARE)
    assert options.trimmed_share == options.demand
    assert not options.demand_exceeds_share


def test_share_is_not_trimmed_if_that_would_break_the_guarantee() -> None:
    """9 CPUs with 20 GB saturate the job, but 3 CPUs need 60 GB for the guaranteed throughput."""
    job = matrix(1, [3, 9], [20, 60], [1, 2], [4, 4])
    options = options_of(SizingRequest("j", job), SHARE)
    assert options.trimmed_share[:4] == (3, 60, 0, 2)
    assert options.demand[:4] == (9, 60, 0, 4)


def test_value_is_relative_to_the_best_if_the_job_does_not_run_with_its_share() -> None:
    options = options_of(SizingRequest("j", matrix(1, [9], [20], [4])), SHARE)
    assert (options.share.throughput, options.demand.value) == (0, 1)
    assert [option[:4] for option in options.efficient] == [(3, 60, 0, 0), (9, 20, 0, 4)]


def test_options_have_storage_bandwidth_in_proportion_to_throughput() -> None:
    job = matrix(1, [3, 6], [60], [2], [4])
    assert amounts(SizingRequest("j", job, 160)) == [(3, 60, 80, 2), (6, 60, 160, 4)]


def test_share_of_storage_bandwidth_limits_the_guarantee() -> None:
    job = matrix(1, [1, 3, 6], [60], [1], [3], [4])
    assert amounts(SizingRequest("j", job, 200)) == [
        (3, 60, 100, 2),
        (3, 60, 150, 3),
        (6, 60, 200, 4),
    ]
    assert options_of(SizingRequest("j", job, 200), SHARE).share[:4] == (3, 60, 100, 2)


def test_cache_shares_options_of_requests_with_one_matrix() -> None:
    cache = OptionsCache([ServerCapacity("s", 8, 24, 480)])
    one, other = matrix(1, [1], [20], [5]), matrix(1, [2], [20], [5])
    assert cache.get(SizingRequest("a", one)) is cache.get(SizingRequest("b", one))
    assert cache.get(SizingRequest("a", one)) is not cache.get(SizingRequest("a", one, 10))
    assert cache.get(SizingRequest("a", one)).demand != cache.get(SizingRequest("b", other)).demand
