"""A window contains whole steps, and ends at jumps of the driver's time."""

import math
from collections.abc import Sequence

import pytest

from gputopo.counters.difference import Flow
from gputopo.counters.link_peers import LinkPeers
from gputopo.counters.model import ByteCount, GpuCounters, LoadReading, LoadSource
from gputopo.counters.window import (
    MAX_WINDOW_SECONDS,
    NVLINK_SUM,
    PCIE,
    CounterKey,
    TrafficWindow,
    WindowCollector,
)
from gputopo.errors import InvalidInputError
from gputopo.topology.model import GpuIndex
from support.counters import both_ways, counters_at, gpu_indices, mesh

PEERS = mesh(2)
RING = both_ways([(0, 1)], 1000)


def windows(
    times: Sequence[float], steps: Sequence[float | None], *, least: float = 6.0
) -> list[TrafficWindow]:
    collector = WindowCollector(gpu_indices(2), PEERS, least)
    found = [
        collector.add(counters_at(at, PEERS, RING), each)
        for at, each in zip(times, steps, strict=True)
    ]
    return [each for each in found if each]


def test_window_has_flows_of_its_whole_time() -> None:
    (found,) = windows(range(7), [2.0 * n for n in range(7)])
    assert (found.seconds, found.steps) == (6, 12)
    assert found.flow(CounterKey(GpuIndex(0), 0)) == Flow(6 * 10**9, 6 * 10**9, 6)


def test_windows_follow_each_other() -> None:
    found = windows(range(13), [float(n) for n in range(13)])
    assert [(each.seconds, each.steps) for each in found] == [(6, 6), (6, 6)]


def test_window_waits_for_two_steps() -> None:
    found = windows(range(25), [n // 10 for n in range(25)])
    assert [(each.seconds, each.steps) for each in found] == [(20, 2)]


def test_window_without_two_steps_ends_and_has_no_steps() -> None:
    found = windows(range(122), [n // 100 for n in range(122)])
    assert [(each.seconds, each.steps) for each in found] == [(MAX_WINDOW_SECONDS, None)]


@pytest.mark.parametrize(
    "steps",
    [
        [None] * 7,
        [None, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0],
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, None],
        [10.0, 12.0, 14.0, 2.0, 4.0, 16.0, 18.0],
        [10.0, 12.0, None, None, 2.0, 4.0, 6.0],
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, math.inf],
        [math.nan, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0],
    ],
    ids=["never", "late", "lost", "restart", "restart after a gap", "infinite", "not a number"],
)
def test_window_has_no_steps_if_they_are_unknown(steps: list[float | None]) -> None:
    (found,) = windows(range(7), steps)
    assert found.steps is None


@pytest.mark.parametrize("jump", [-3.0, 11.0, 1e9])
def test_window_begins_again_after_a_jump_of_the_time(jump: float) -> None:
    times = [0.0, 1.0, 2.0, 3.0, *(3.0 + jump + n for n in range(7))]
    (found,) = windows(times, [2.0 * n for n in range(11)])
    assert (found.seconds, found.steps) == (6, 12)


def test_counter_that_covers_little_of_the_window_is_unknown() -> None:
    flows = {CounterKey(GpuIndex(0), 0): Flow(1, 1, 4.7), CounterKey(GpuIndex(0), 1): Flow(1, 1, 5)}
    found = TrafficWindow(6, None, flows)
    assert found.flow(CounterKey(GpuIndex(0), 0)) is None
    assert found.flow(CounterKey(GpuIndex(0), 1)) is not None
    assert found.flow(CounterKey(GpuIndex(0), 2)) is None


def test_one_wrong_time_does_not_end_a_window() -> None:
    collector = WindowCollector(gpu_indices(2), PEERS, 6)
    found = []
    for second in range(7):
        counters = counters_at(second, PEERS, RING, pcie_mb_per_s=100)
        if second == 3:
            broken = ByteCount(0, 0, 2**62)
            counters[GpuIndex(0)] = GpuCounters(counters[GpuIndex(0)].links, pcie=broken)
        found.append(collector.add(counters, 2.0 * second))
    last = found[-1]
    assert last is not None
    assert last.seconds == 6
    assert last.flow(CounterKey(GpuIndex(0), PCIE)) is None
    assert last.flow(CounterKey(GpuIndex(1), PCIE)) is not None


def test_sums_of_links_are_counted() -> None:
    collector = WindowCollector(gpu_indices(1), mesh(2), 2)
    found = [
        collector.add({GpuIndex(0): GpuCounters(nvlink=ByteCount(n * 10**9, 0, n * 10**6))}, None)
        for n in range(3)
    ]
    assert found[-1] is not None
    assert found[-1].flow(CounterKey(GpuIndex(0), NVLINK_SUM)) == Flow(2 * 10**9, 0, 2)


def test_gpu_without_counters_of_bytes_has_windows_by_its_load() -> None:
    collector = WindowCollector(gpu_indices(1), LinkPeers({}), 6)
    found = []
    for n in range(3):
        end = 30 * 10**6 * n
        load = LoadReading(LoadSource.DCGM, 0.5, None, end - 1, end)
        found.append(collector.add({GpuIndex(0): GpuCounters(load=load)}, 10.0 * n))
    assert found == [None, TrafficWindow(30, 10, {}), TrafficWindow(30, 10, {})]


@pytest.mark.parametrize("readings", [{}, {GpuIndex(0): GpuCounters()}])
def test_nothing_read_is_no_window(readings: dict[GpuIndex, GpuCounters]) -> None:
    assert WindowCollector(gpu_indices(2), PEERS, 6).add(readings, 1.0) is None


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_window_of_no_length_is_rejected(seconds: float) -> None:
    with pytest.raises(InvalidInputError, match="window_seconds: "):
        WindowCollector(gpu_indices(2), PEERS, seconds)
