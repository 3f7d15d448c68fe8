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
    on_other_sockets,
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
        (BIG, BIG, (1.3 + 1.1 + 1.24 + 1 + 1.5) / 5, SlowdownSource.ALL),
        (TINY, UNGROUPED, (1.3 + 1.1 + 1.24 + 1 + 1.5) / 5, SlowdownSource.ALL),
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


def test_job_suffers_its_worst_neighbour_and_slows_each_of_them() -> None:
    interference, suffered = interference_costs(TINY, [TINY, BIG], TABLE)
    assert suffered.value == 1.3
    assert interference.value == pytest.approx((1.3 + 1.3 + 1.0) / 3)  # own, TINY's, BIG's
    assert {interference.best, suffered.best} == {1}
    assert {interference.worst, suffered.worst} == {1.5}


def test_job_alone_has_no_interference() -> None:
    interference, suffered = interference_costs(TINY, [], TABLE)
    assert (interference.value, suffered.value) == (1, 1)
    assert interference.term == suffered.term == 1


def test_neighbours_on_other_sockets_count_only_with_a_measured_slowdown() -> None:
    table = SlowdownTable({(TINY, TINY): 1.3}, {(BIG, TINY): 1.1, (TINY, TINY_2): 0.9})
    assert table.crosses_sockets
    assert table.slowdown_on_node(BIG, TINY) == NeighbourSlowdown(1.1, SlowdownSource.MEASURED)
    assert table.slowdown_on_node(TINY, BIG) == NeighbourSlowdown(1.0, SlowdownSource.UNKNOWN)
    assert table.slowdown(BIG, TINY).source is SlowdownSource.ALL  # of the same socket only
    cost, suffered = interference_costs(TINY, (), table, (BIG, UNGROUPED))
    assert cost.value == pytest.approx((1 + 1.1) / 2)
    assert suffered.value == 1.0
    cost, suffered = interference_costs(BIG, (TINY,), table, (TINY, TINY_2))
    assert suffered.value == pytest.approx(1.3)  # mean of all: the pair was not measured
    assert cost.value == pytest.approx((1.3 + 1.3 + 1.0) / 3)
    assert cost.worst == 1.3


def test_neighbours_on_other_sockets_are_listed_only_if_a_slowdown_is_known() -> None:
    neighbours = (RunningNeighbour(TINY, gpus(0)), RunningNeighbour(BIG, gpus(1, 2)))
    sockets = (gpus(0, 1), gpus(2, 3))
    across = SlowdownTable({}, {(BIG, TINY): 1.1})
    assert on_other_sockets(gpus(3), neighbours, sockets, across) == (TINY,)
    assert on_other_sockets(gpus(3), neighbours, sockets, TABLE) == ()


def test_impossible_slowdown_across_sockets_is_rejected() -> None:
    with pytest.raises(UtilityError, match="slowdown of 'alexnet-1' beside 'alexnet-128': 0"):
        SlowdownTable({}, {(TINY, BIG): 0})
