"""Find servers for a job, and spread jobs over servers."""

import math

from gputopo.sizing.fit import best_fit, first_fit, fit_by_gpus, split_over_servers
from gputopo.sizing.model import ResourceAmounts, SizingRequest
from gputopo.sizing.options import Option, OptionChoice, options_of
from gputopo.sizing.prices import Prices
from gputopo.sizing.server_state import ServerState, Slots
from gputopo.sizing.spread import PlacementOrder, place_jobs
from support.sizing import matrix

NOTHING = Option(0, 0, 0, 1, 1)


def server_state(name: str, gpus: int, cpus: float = 99) -> ServerState:
    return ServerState(name, gpus, ResourceAmounts(cpus, 999, math.inf))


def named(slots: Slots | None) -> list[tuple[str, int]] | None:
    return None if slots is None else [(each.name, gpus) for each, gpus in slots]


def cpus(count: float) -> Option:
    return NOTHING._replace(cpus=count)


def test_first_fit_takes_the_first_server_and_best_fit_the_fullest() -> None:
    servers = [
        server_state("small", 1),
        server_state("big", 8),
        server_state("few-cpus", 4, 1),
        server_state("just", 4),
    ]
    assert named(first_fit(servers, 3, cpus(3))) == [("big", 3)]
    assert named(best_fit(servers, 3, cpus(3))) == [("just", 3)]
    assert named(best_fit(servers, 3, cpus(1))) == [("few-cpus", 3)]


def test_best_fit_prefers_fewer_cpus_if_gpus_are_equal() -> None:
    servers = [server_state("more-cpus", 4, 20), server_state("fewer-cpus", 4, 10)]
    assert named(best_fit(servers, 3, cpus(3))) == [("fewer-cpus", 3)]


def test_split_uses_the_fewest_servers_with_equal_resources_for_each_gpu() -> None:
    servers = [server_state("a", 2), server_state("b", 5, 6), server_state("c", 8, 9)]
    assert named(split_over_servers(servers, 6, cpus(18))) == [("c", 3), ("a", 2), ("b", 1)]
    assert named(split_over_servers(servers, 6, cpus(6))) == [("c", 6)]


def test_job_does_not_fit_if_gpus_or_cpus_are_missing_or_it_cannot_be_split() -> None:
    servers = [server_state("a", 2, 3), server_state("b", 2, 3)]
    assert split_over_servers(servers, 3, cpus(9)) is None
    assert split_over_servers(servers, 4, cpus(16)) is None
    assert split_over_servers(servers, 1, cpus(4)) is None


def test_fit_by_gpus_takes_the_fullest_server_or_splits_over_the_emptiest() -> None:
    servers = [server_state("a", 2), server_state("b", 5), server_state("c", 3)]
    assert named(fit_by_gpus(servers, 3)) == [("c", 3)]
    assert named(fit_by_gpus(servers, 9)) == [("b", 5), ("c", 3), ("a", 1)]


def test_rounding_errors_of_fractions_do_not_prevent_a_fit() -> None:
    server = server_state("a", 3, 1.0)
    for _ in range(3):
        assert server.has_free(cpus(1), 1 / 3)
        server.take(cpus(1), 1 / 3)
    assert not server.is_overcommitted
    assert not server.has_free(cpus(1), 1 / 3)


def test_other_jobs_are_reduced_if_only_gpus_are_free() -> None:
    """Both choices have all CPUs of the server; nothing checks that choices fit together."""
    request = SizingRequest("j", matrix(1, [2, 4], [20], [1], [3]))
    options = options_of(request, ResourceAmounts(2, 20, math.inf))
    choices = [OptionChoice(request, options, options.efficient[1]) for _ in range(2)]
    placed = place_jobs(
        [server_state("s", 2, 4)], choices, Prices(1, 0, 0), PlacementOrder.LARGEST_GAIN
    )
    assert [job.option.cpus for job in placed] == [2, 2]
