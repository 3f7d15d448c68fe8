"""Slowdowns of pairs: measured, of similar workloads, or of all; own and caused."""

import math

import pytest

from gputopo.utility.cost import UtilityError
from gputopo.utility.interference import (
    NeighbourSlowdown,
    RunningNeighbour,
    SlowdownSource,
    SlowdownTable,
    WorkloadKind,
    beside,
    interference_costs,
)
from support.builders.topologies import gpus

TINY, TINY_2 = WorkloadKind("alexnet-1", "tiny"), WorkloadKind("googlenet-1", "tiny")
BIG = WorkloadKind("alexnet-128", "big")
UNGROUPED = WorkloadKind("unknown")

TABLE = SlowdownTable(
    {
        (TINY, TINY): 1.3,
        (TINY_2, TINY): 1.1,
        (TINY, BIG): 1.24,
        (BIG, TINY): 0.98,
        (UNGROUPED, TINY): 1.5,
    }
)


@pytest.mark.parametrize(
    ("own", "neighbour", "value", "source"),
    [
        (TINY, TINY, 1.3, SlowdownSource.MEASURED),
        (BIG, TINY, 1.0, SlowdownSource.MEASURED),  # below 1 is an error of measurement
        (TINY, TINY_2, 1.2, SlowdownSource.GROUP),  # mean of 1.3 and 1.1
        (WorkloadKind("new", "tiny"), BIG, 1.24, SlowdownSource.GROUP),
        (BIG, BIG, 1.24, SlowdownSource.ALL),  # median of 1, 1.1, 1.24, 1.3 and 1.5
        (TINY, UNGROUPED, 1.24, SlowdownSource.ALL),
    ],
)
def test_slowdown_of_a_pair_has_the_nearest_source(
    own: WorkloadKind, neighbour: WorkloadKind, value: float, source: SlowdownSource
) -> None:
    found = TABLE.slowdown(own, neighbour)
    assert found.source is source
    assert found.value == pytest.approx(value)


def test_workloads_without_a_group_are_not_similar_to_each_other() -> None:
    table = SlowdownTable({(UNGROUPED, UNGROUPED): 2.0, (TINY, TINY): 1.0})
    assert table.slowdown(WorkloadKind("other"), WorkloadKind("third")).source is SlowdownSource.ALL
    assert TABLE.slowdown(WorkloadKind("other"), TINY_2).source is SlowdownSource.ALL


def test_nothing_is_known_without_measurements() -> None:
    empty = SlowdownTable({})
    assert empty.slowdown(TINY, BIG) == NeighbourSlowdown(1.0, SlowdownSource.UNKNOWN)
    assert empty.worst == 1


def test_worst_case_is_the_highest_slowdown_of_the_table() -> None:
    assert TABLE.worst == 1.5


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_impossible_slowdown_is_rejected(value: float) -> None:
    with pytest.raises(UtilityError, match="slowdown of 'alexnet-1' beside 'alexnet-128': "):
        SlowdownTable({(TINY, BIG): value})


def test_neighbours_are_those_that_share_a_socket() -> None:
    neighbours = (
        RunningNeighbour(TINY, gpus(1)),
        RunningNeighbour(BIG, gpus(2, 3)),
        RunningNeighbour(TINY_2, gpus(1, 4)),
    )
    sockets = (gpus(0, 1), gpus(2, 3), gpus(4, 5))
    assert beside(gpus(0), neighbours, sockets) == (TINY, TINY_2)
    assert beside(gpus(5), neighbours, sockets) == (TINY_2,)
    assert beside(gpus(0, 5), neighbours, sockets) == (TINY, TINY_2)


def test_one_extreme_pair_changes_little_for_unknown_pairs() -> None:
    usual = {(WorkloadKind(name), WorkloadKind("a")): 1.1 for name in "abc"}
    table = SlowdownTable(usual | {(BIG, TINY): 4.0})
    assert table.slowdown(TINY, BIG) == NeighbourSlowdown(1.1, SlowdownSource.ALL)


def test_slowdowns_of_several_neighbours_are_multiplied_and_the_caused_ones_added() -> None:
    interference, suffered = interference_costs(TINY, [TINY, BIG], TABLE)
    assert suffered.value == pytest.approx(1.3 * 1.24)
    assert interference.value == pytest.approx(1 + ((1.3 * 1.24 - 1) + (0.3 + 0.0)) / 2)
    assert {interference.best, suffered.best} == {1}
    assert {interference.worst, suffered.worst} == {1.5}
    assert suffered.term == pytest.approx(0.01)  # above the worst pair


def test_beside_one_neighbour_the_cost_is_the_mean_of_equation_4() -> None:
    assert interference_costs(TINY, [BIG], TABLE)[0].value == pytest.approx((1.24 + 1.0) / 2)


def test_only_the_worst_neighbour_counts_if_the_table_says_so() -> None:
    table = SlowdownTable({(TINY, TINY): 1.3, (TINY, BIG): 1.24}, worst_pair_decides=True)
    interference, suffered = interference_costs(TINY, [TINY, BIG], table)
    assert suffered.value == 1.3
    assert interference.value == pytest.approx(1 + (0.3 + 0.3 + 0.27) / 2)  # BIG's: median of both
    assert interference_costs(TINY, [], table)[1].value == 1


@pytest.mark.parametrize("worst_pair_decides", [False, True])
def test_further_neighbours_do_not_lower_the_cost(*, worst_pair_decides: bool) -> None:
    noisy, quiet = WorkloadKind("noisy"), WorkloadKind("quiet")
    pairs = {(quiet, noisy): 1.3, (noisy, quiet): 1.0, (noisy, noisy): 1.05, (quiet, quiet): 1.0}
    table = SlowdownTable(pairs, worst_pair_decides=worst_pair_decides)
    found = [interference_costs(quiet, [noisy] * count, table)[0] for count in range(4)]
    assert [cost.value for cost in found] == sorted(cost.value for cost in found)
    both = interference_costs(quiet, [noisy, quiet], table)[0]
    assert both == found[1]


def test_job_alone_has_no_interference() -> None:
    interference, suffered = interference_costs(TINY, [], TABLE)
    assert (interference.value, suffered.value) == (1, 1)
    assert interference.term == suffered.term == 1


def test_slowdown_across_sockets_is_that_of_the_measured_pair() -> None:
    table = SlowdownTable({(TINY, TINY): 1.3}, {(BIG, TINY): 1.1, (TINY, TINY_2): 0.9})
    assert table.slowdown_on_node(BIG, TINY) == NeighbourSlowdown(1.1, SlowdownSource.MEASURED)
    assert table.slowdown_on_node(TINY, BIG) == NeighbourSlowdown(1.0, SlowdownSource.UNKNOWN)
    assert table.slowdown(BIG, TINY).source is SlowdownSource.ALL  # of the same socket only
    assert table.slowdown_on_node(TINY, TINY_2) == NeighbourSlowdown(1.0, SlowdownSource.MEASURED)
    assert table.worst == 1.3


def test_impossible_slowdown_across_sockets_is_rejected() -> None:
    with pytest.raises(UtilityError, match="slowdown of 'alexnet-1' beside 'alexnet-128': 0"):
        SlowdownTable({}, {(TINY, BIG): 0})


MIXED = SlowdownTable(
    {(TINY, TINY): 1.304, (BIG, TINY): 1.116, (TINY, BIG): 1.25, (BIG, BIG): 1.5},
    {(BIG, TINY): 1.1, (BIG, BIG): 1.2},
)


@pytest.mark.parametrize("own", [TINY, TINY_2, BIG, UNGROUPED])
@pytest.mark.parametrize("other", [TINY, TINY_2, BIG, UNGROUPED])
def test_part_of_a_job_has_the_same_slowdowns_in_percent(
    own: WorkloadKind, other: WorkloadKind
) -> None:
    part = MIXED.of_job(own)
    for pair in ((own, other), (other, own)):
        for of_part, of_all in (
            (part.slowdown(*pair), MIXED.slowdown(*pair)),
            (part.slowdown_on_node(*pair), MIXED.slowdown_on_node(*pair)),
        ):
            assert of_part.source is of_all.source
            assert of_part.value == pytest.approx(of_all.value, abs=0.005001)
    assert part.worst == MIXED.worst


def test_parts_are_equal_if_only_other_pairs_change() -> None:
    def table(other: float, own: float = 1.3) -> SlowdownTable:
        many = {(WorkloadKind(f"w{number}"), BIG): 1.25 for number in range(18)}
        return SlowdownTable({(UNGROUPED, UNGROUPED): other, (TINY, UNGROUPED): own} | many)

    assert table(1.2) != table(1.21)
    assert table(1.2) == table(1.2)
    assert table(1.2).of_job(TINY) == table(1.21).of_job(TINY)
    assert hash(table(1.2).of_job(TINY)) == hash(table(1.21).of_job(TINY))
    assert table(1.2).of_job(UNGROUPED) != table(1.21).of_job(UNGROUPED)
    assert table(1.2).of_job(TINY) != table(1.2, own=1.31).of_job(TINY)
    assert table(1.2) != "a table"
