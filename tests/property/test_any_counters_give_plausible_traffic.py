"""Any counters give plausible traffic or none, in bounded memory; bounds hold for any overlap."""

import pickle
from collections.abc import Iterator
from itertools import combinations

from hypothesis import given, strategies

from gputopo.counters.difference import CAPACITY_MARGIN
from gputopo.counters.link_peers import MAX_PCIE_MB_PER_S, LinkPeer, LinkPeers, OtherEnd
from gputopo.counters.meter import TrafficMeter
from gputopo.counters.model import (
    ByteCount,
    GpuCounters,
    Load,
    LoadReading,
    LoadSource,
    Traffic,
    TrafficSource,
)
from gputopo.counters.share import StepTraffic, communication_share, most_slowdown_percent
from gputopo.topology.model import GpuIndex
from support.property_settings import fuzzed, tried

RATE = 25_000
MAX_STATE_BYTES = 64 * 1024

Gpus = strategies.integers(0, 4).map(GpuIndex)
AnyInt = strategies.integers(-(2**70), 2**70) | strategies.integers(-3, 3)
AnyFloat = strategies.floats() | strategies.floats(0, 1)
AnyCount = strategies.builds(
    ByteCount, AnyInt, AnyInt, AnyInt, strategies.none() | strategies.just(2**40) | AnyInt
)
AnyLoad = strategies.builds(
    LoadReading,
    strategies.sampled_from(LoadSource),
    AnyFloat,
    strategies.none() | AnyFloat,
    AnyInt,
    AnyInt,
)
AnyCounters = strategies.builds(
    GpuCounters,
    strategies.dictionaries(strategies.integers(-1, 20), AnyCount, max_size=8),
    strategies.none() | AnyCount,
    strategies.none() | AnyCount,
    strategies.none() | AnyLoad,
)
Garbage = strategies.dictionaries(Gpus, AnyCounters, max_size=2)
Ends = strategies.sampled_from(
    [*map(GpuIndex, range(6)), OtherEnd.SWITCH, OtherEnd.HOST, OtherEnd.UNKNOWN]
)


def mesh(size: int) -> LinkPeers:
    """Two links between any two GPUs."""
    of: dict[GpuIndex, dict[int, LinkPeer]] = {GpuIndex(gpu): {} for gpu in range(size)}
    for a, b in [*combinations(range(size), 2)] * 2:
        for gpu, peer in ((GpuIndex(a), GpuIndex(b)), (GpuIndex(b), GpuIndex(a))):
            of[gpu][len(of[gpu])] = LinkPeer(peer, RATE)
    return LinkPeers(of)


Peers = strategies.integers(2, 4).map(mesh) | strategies.builds(
    LinkPeers,
    strategies.dictionaries(
        Gpus,
        strategies.dictionaries(
            strategies.integers(0, 8),
            strategies.builds(LinkPeer, Ends, strategies.just(RATE)),
            max_size=6,
        ),
    ),
)


@strategies.composite
def reads(draw: strategies.DrawFn) -> list[tuple[dict[GpuIndex, GpuCounters], float | None, bool]]:
    """Counters of 5 GPUs that mostly advance, and wrap, stop, are reset, missing or garbage."""
    found, second, begin, steps = [], 0.0, 0, 0.0
    for _ in range(draw(strategies.integers(0, 8))):
        event = draw(strategies.sampled_from(["", "", "garbage", "reset", "stop", "gap", "back"]))
        rate = draw(strategies.integers(0, 3 * RATE))
        wraps_at = draw(strategies.sampled_from([None, 2**36]))
        garbage = draw(Garbage) if event == "garbage" else {}
        missing = draw(strategies.sets(Gpus, max_size=1))
        known = draw(strategies.sampled_from([True, True, False]))
        alone = draw(strategies.sampled_from([True, True, False]))
        steps = draw(AnyFloat) if event == "garbage" else steps
        for _ in range(draw(strategies.integers(1, 12))):
            second += {"gap": 13.0, "back": -1.0, "stop": 0.0}.get(event, 1.0)
            begin = 0 if event == "reset" else begin + rate * 10**6
            steps += 3
            counters = steady(begin, second, wraps_at) | garbage
            read = {gpu: each for gpu, each in counters.items() if gpu not in missing}
            found.append((read, steps if known else None, alone))
    return found


def steady(count: int, second: float, wraps_at: int | None) -> dict[GpuIndex, GpuCounters]:
    value = count % wraps_at if wraps_at else count
    at_us = int(second * 1e6)
    one = ByteCount(value, value, at_us, wraps_at)
    load = LoadReading(LoadSource.GPM, 0.5, 0.25, at_us - 10**6, at_us)
    counters = GpuCounters(dict.fromkeys(range(8), one), one, one, load)
    return {GpuIndex(gpu): counters for gpu in range(5)}


def most_per_second(peers: LinkPeers, gpus: set[GpuIndex]) -> float:
    """Return what one of the GPUs can send, by its links of all kinds."""
    links = max(sum(link.mb_per_s for link in peers.links(gpu).values()) for gpu in gpus)
    return (links + MAX_PCIE_MB_PER_S) * 1e6 * CAPACITY_MARGIN


def assert_plausible(traffic: Traffic | None, limit: float, windows: int) -> None:
    if traffic is None:
        return
    if traffic.bytes_per_step is not None:
        assert 0 <= traffic.bytes_per_step <= limit * 130  # a window has two steps in 120 s
    assert (traffic.pattern is None) == bool(traffic.unknown_reason)
    if traffic.pattern is not None:
        assert traffic.source is TrafficSource.NVLINK_PAIRS
        assert 700 <= traffic.pattern.confidence_permille <= 1000
        assert 5 <= traffic.pattern.windows <= windows


def assert_plausible_load(load: Load | None) -> None:
    if load is not None:
        assert 0 <= load.occupancy_us <= 130e6
        assert load.dram_us is None or 0 <= load.dram_us <= 130e6


@fuzzed
@given(peers=Peers, gpus=strategies.sets(Gpus, min_size=1), sequence=reads())
def test_any_counters_give_plausible_traffic(
    peers: LinkPeers,
    gpus: set[GpuIndex],
    sequence: list[tuple[dict[GpuIndex, GpuCounters], float | None, bool]],
) -> None:
    tried("sequences of hardware counters")
    meter = TrafficMeter(gpus, peers, window_seconds=3)
    limit = most_per_second(peers, gpus)
    for number, (counters, steps, alone) in enumerate(sequence):
        meter.add(counters, steps, alone=alone)
        if number % 40 == 39:
            traffic, load = meter.take()
            assert_plausible(traffic, limit, 40)
            assert_plausible_load(load)
    assert len(pickle.dumps(meter)) < MAX_STATE_BYTES


def test_memory_does_not_grow_with_time() -> None:
    meter = TrafficMeter(map(GpuIndex, range(4)), mesh(4))
    sizes = []
    for second in range(4000):
        meter.add(steady(second * 10**9, second, None), 2.0 * second)
        if second in {1000, 3999}:
            sizes.append(len(pickle.dumps(meter)))
    assert sizes[1] < 1.1 * sizes[0]


def step_seconds(compute: float, sent: float, hidden: float, mb_per_s: float) -> float:
    """Time of a step that can hide ``hidden`` seconds of communication behind computation."""
    return compute + max(0.0, sent / (mb_per_s * 1e6) - hidden)


@strategies.composite
def overlaps(draw: strategies.DrawFn) -> tuple[float, float, float, list[float]]:
    """Computation, bytes, hidden seconds, and three ascending bandwidths."""
    compute = draw(strategies.floats(0.001, 10))
    hidden = compute * draw(strategies.floats(0, 1))
    return (
        compute,
        draw(strategies.floats(0, 1e12)),
        hidden,
        sorted(draw(strategies.lists(strategies.floats(100, 1e6), min_size=3, max_size=3))),
    )


@fuzzed
@given(job=overlaps(), excess=strategies.floats(1, 5))
def test_bounds_hold_for_any_overlap(
    job: tuple[float, float, float, list[float]], excess: float
) -> None:
    """The bytes may be an upper bound too (``excess``), as with traffic through PCIe."""
    tried("overlaps of communication and computation")
    compute, sent, hidden, (worst, measured, best) = job
    times = {rate: step_seconds(compute, sent, hidden, rate) for rate in (worst, measured, best)}
    traffic = StepTraffic(excess * sent, measured, times[measured])
    percent = most_slowdown_percent(traffic, best, worst)
    assert percent >= 100 * (times[worst] / times[best] - 1) - 1e-6
    exposed = max(0.0, sent / (measured * 1e6) - hidden)
    assert communication_share(traffic) >= exposed / times[measured] - 1e-9


def incomplete_reads() -> Iterator[dict[GpuIndex, GpuCounters]]:
    """Yield a ring of 4 GPUs, in which each GPU is missing in every fourth read."""
    of = mesh(4).of
    for second in range(120):
        counters = {}
        for gpu, links in of.items():
            if second % 4 != gpu:
                one = ByteCount(second * 10**9, second * 10**9, second * 10**6)
                none = ByteCount(0, 0, second * 10**6)
                counters[gpu] = GpuCounters(
                    {number: one if is_edge(gpu, link) else none for number, link in links.items()}
                )
        yield counters


def is_edge(gpu: GpuIndex, link: LinkPeer) -> bool:
    """Return whether a link is in the ring 0 - 1 - 2 - 3."""
    return (gpu - int(link.peer)) % 4 in {1, 3}


def test_gpus_that_are_missing_at_times_do_not_hide_a_ring() -> None:
    meter = TrafficMeter(map(GpuIndex, range(4)), mesh(4))
    for second, counters in enumerate(incomplete_reads()):
        meter.add(counters, 2.0 * second)
    traffic, _ = meter.take()
    assert traffic is not None
    assert traffic.pattern is not None
    assert traffic.pattern.kind == "Ring"
