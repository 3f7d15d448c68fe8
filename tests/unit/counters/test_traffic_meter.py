"""The meter turns counters into traffic, pattern and load of one container."""

import math
from collections.abc import Iterator, Mapping
from itertools import combinations

import pytest

from gputopo.counters.link_peers import LinkPeers, OtherEnd
from gputopo.counters.meter import TrafficMeter
from gputopo.counters.model import (
    ByteCount,
    GpuCounters,
    Load,
    LoadReading,
    LoadSource,
    ObservedPattern,
    Traffic,
    TrafficSource,
)
from gputopo.counters.votes import UnknownReason
from gputopo.errors import InvalidInputError
from gputopo.patterns.model import PatternKind
from gputopo.topology.model import GpuIndex
from support.counters import BEGIN_US, MB, all_to, both_ways, counters_at, fed, gpu_indices, mesh

MESH = mesh(4, (0, 1), (2, 3), outside=2)
RING = both_ways([(0, 1), (1, 2), (2, 3), (0, 3)], 3000)
SWITCH = all_to(OtherEnd.SWITCH, 4)


def minute(
    peers: LinkPeers,
    mb_per_s: Mapping[tuple[int, int], float],
    *,
    other: float = 0.0,
    pcie: float | None = None,
) -> Iterator[dict[GpuIndex, GpuCounters]]:
    for second in range(61):
        yield counters_at(second, peers, mb_per_s, other_mb_per_s=other, pcie_mb_per_s=pcie)


def meter(peers: LinkPeers, gpus: int = 4) -> TrafficMeter:
    return TrafficMeter(gpu_indices(gpus), peers)


def test_ring_beside_traffic_of_other_containers() -> None:
    traffic, load = fed(meter(MESH), minute(MESH, RING, other=20_000)).take()
    assert traffic == Traffic(
        TrafficSource.NVLINK_PAIRS,
        bytes_per_step=3000 * MB,
        pattern=ObservedPattern(PatternKind.RING, 1000, 10),
    )
    assert load is None


def test_gpus_that_do_not_communicate() -> None:
    traffic, _ = fed(meter(MESH), minute(MESH, {}, other=20_000, pcie=5000)).take()
    assert traffic == Traffic(TrafficSource.NVLINK_PAIRS, 0, ObservedPattern(None, 1000, 10))


def test_nothing_is_known_of_the_pattern_without_steps() -> None:
    traffic, _ = fed(meter(MESH), minute(MESH, RING), steps_per_read=None).take()
    assert traffic == Traffic(TrafficSource.NVLINK_PAIRS, None, None, UnknownReason.NO_STEPS)


@pytest.mark.parametrize(
    ("peers", "other", "pcie", "expected"),
    [
        (SWITCH, 500.0, None, (TrafficSource.NVLINK_TOTALS, 1000, UnknownReason.SWITCH)),
        (
            all_to(OtherEnd.UNKNOWN, 4),
            500.0,
            None,
            (TrafficSource.NVLINK_TOTALS, 1000, UnknownReason.HIDDEN),
        ),
        (
            all_to(OtherEnd.HOST, 4),
            500.0,
            700.0,
            (TrafficSource.PARTIAL, 1700, UnknownReason.NO_NVLINK),
        ),
        (
            LinkPeers({gpu: {} for gpu in gpu_indices(4)}),
            0.0,
            700.0,
            (TrafficSource.PARTIAL, 700, UnknownReason.NO_NVLINK),
        ),
    ],
    ids=["switch", "virtual machine", "links to processors", "PCIe only"],
)
def test_pattern_is_unknown_without_links_between_all_pairs(
    peers: LinkPeers, other: float, pcie: float | None, expected: tuple[TrafficSource, int, str]
) -> None:
    source, mb_per_s, reason = expected
    traffic, _ = fed(meter(peers), minute(peers, {}, other=other, pcie=pcie)).take()
    assert traffic == Traffic(source, mb_per_s * MB // 2, None, reason)


def test_partial_traffic_is_unknown_without_counters_of_pcie() -> None:
    peers = all_to(OtherEnd.HOST, 4)
    assert fed(meter(peers), minute(peers, {}, other=500)).take() == (None, None)


def test_sums_of_the_links_give_totals() -> None:
    readings = (
        {
            gpu: GpuCounters(nvlink=ByteCount(n * 10**9, 0, BEGIN_US + n * MB))
            for gpu in gpu_indices(4)
        }
        for n in range(61)
    )
    traffic, _ = fed(meter(MESH), readings).take()
    assert traffic == Traffic(
        TrafficSource.NVLINK_TOTALS, 500 * MB, None, UnknownReason.ONLY_TOTALS
    )


def test_pairs_are_preferred_to_sums_of_some_windows() -> None:
    def readings() -> Iterator[dict[GpuIndex, GpuCounters]]:
        for second, each in enumerate(minute(MESH, RING)):
            sums = ByteCount(second * 10**9, 0, BEGIN_US + second * MB)
            yield {
                gpu: GpuCounters({} if second < 20 else counters.links, nvlink=sums)
                for gpu, counters in each.items()
            }

    traffic, _ = fed(meter(MESH), readings()).take()
    assert traffic is not None
    assert (traffic.source, traffic.bytes_per_step) == (TrafficSource.NVLINK_PAIRS, 3000 * MB)


def test_ends_that_differ_leave_too_few_windows() -> None:
    def readings() -> Iterator[dict[GpuIndex, GpuCounters]]:
        for each in minute(MESH, RING):
            half = {
                number: ByteCount(count.sent // 2, count.received // 2, count.at_us)
                for number, count in each[GpuIndex(0)].links.items()
            }
            yield each | {GpuIndex(0): GpuCounters(half)}

    traffic, _ = fed(meter(MESH), readings()).take()
    assert traffic is not None
    assert (traffic.pattern, traffic.unknown_reason) == (None, UnknownReason.TOO_FEW)


def test_each_take_begins_a_new_sample() -> None:
    used = fed(meter(MESH), minute(MESH, RING))
    assert used.take()[0] is not None
    assert used.take() == (None, None)


def test_reset_forgets_what_was_before() -> None:
    used = fed(meter(MESH), minute(MESH, RING))
    used.reset()
    assert used.take() == (None, None)
    used.add(counters_at(200, MESH, RING), 900.0)
    assert used.take() == (None, None)


def test_container_of_one_gpu_has_a_load_and_no_traffic() -> None:
    used = meter(mesh(1), gpus=1)
    for n in range(61):
        end_us = BEGIN_US + n * MB
        load = LoadReading(LoadSource.GPM, 0.4, 0.1, end_us - MB, end_us)
        counters = GpuCounters(pcie=ByteCount(0, 0, end_us), load=load)
        used.add({GpuIndex(0): counters, GpuIndex(9): counters}, 4.0 * n)
    assert used.take() == (None, Load(LoadSource.GPM, 100_000, 25_000))


def test_load_is_unknown_beside_another_container() -> None:
    loads = {n: LoadReading(LoadSource.GPM, 0.4, 0.1, 0, MB) for n in range(4)}
    readings = [
        counters_at(
            n,
            MESH,
            RING,
            loads={
                gpu: load._replace(from_us=n * MB, to_us=(n + 1) * MB)
                for gpu, load in loads.items()
            },
        )
        for n in range(61)
    ]
    assert fed(meter(MESH), readings).take()[1] == Load(LoadSource.GPM, 200_000, 50_000)
    assert fed(meter(MESH), readings, alone=False).take()[1] is None


def test_windows_may_have_another_length() -> None:
    used = TrafficMeter(gpu_indices(4), MESH, window_seconds=10)
    traffic, _ = fed(used, minute(MESH, RING)).take()
    assert traffic is not None
    assert traffic.pattern == ObservedPattern(PatternKind.RING, 1000, 6)


def test_more_gpus_than_a_pod_may_have_give_no_pattern() -> None:
    peers = mesh(17)
    ring = both_ways(list(combinations(range(17), 2)), 3000)
    traffic, _ = fed(meter(peers, 17), minute(peers, ring)).take()
    assert traffic is not None
    assert traffic.unknown_reason == UnknownReason.NO_PATTERN


def test_window_of_no_length_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="window_seconds: nan"):
        TrafficMeter(gpu_indices(2), mesh(2), window_seconds=math.nan)
