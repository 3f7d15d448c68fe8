"""Traffic of the pairs of one window, its shape, and the votes of several windows."""

from collections.abc import Mapping
from itertools import combinations, pairwise

import pytest

from gputopo.counters.difference import Flow
from gputopo.counters.model import ObservedPattern
from gputopo.counters.pairs import PairTraffic, pair_traffic
from gputopo.counters.shape import NoShape, Shape, shape_of
from gputopo.counters.votes import UnknownReason, vote
from gputopo.counters.window import CounterKey, TrafficWindow
from gputopo.patterns.model import PatternKind
from gputopo.topology.model import GpuIndex
from support.counters import RATE, both_ways, gpu_indices, mesh, window

A, B = GpuIndex(0), GpuIndex(1)
RING = [(0, 1), (1, 2), (2, 3), (0, 3)]


def traffic(
    weights: Mapping[tuple[int, int], float],
) -> dict[tuple[GpuIndex, GpuIndex], PairTraffic]:
    """Return the traffic of four GPUs; other pairs have none."""
    return {
        (a, b): PairTraffic(weights.get((a, b), 0.0), weights.get((a, b), 0.0) / RATE)
        for a, b in combinations(gpu_indices(4), 2)
    }


def equal(pairs: list[tuple[int, int]], mb_per_s: float = 1000) -> dict[tuple[int, int], float]:
    return dict.fromkeys(pairs, mb_per_s)


def test_links_of_a_pair_add_up_and_the_busier_direction_is_the_utilisation() -> None:
    found = pair_traffic(
        window(mesh(2, (0, 1)), {(0, 1): 10_000, (1, 0): 5_000}), [B, A], mesh(2, (0, 1))
    )
    assert found == {(A, B): PairTraffic(15_000, 0.2)}


def test_links_to_gpus_of_other_containers_do_not_count() -> None:
    peers = mesh(2, outside=2)
    found = pair_traffic(window(peers, {(0, 1): 1000, (0, 40): 9000, (40, 0): 9000}), [A, B], peers)
    assert found == {(A, B): PairTraffic(1000, 0.04)}


def with_end(gpu: GpuIndex, flow: Flow | None) -> TrafficWindow:
    """Return a window of two GPUs with one link, of which one end shows ``flow``."""
    found = window(mesh(2), both_ways([(0, 1)], 1000))
    flows = dict(found.flows)
    del flows[CounterKey(gpu, 0)]
    if flow:
        flows[CounterKey(gpu, 0)] = flow
    return TrafficWindow(found.seconds, found.steps, flows)


@pytest.mark.parametrize("gpu", [A, B])
@pytest.mark.parametrize(
    "flow",
    [None, Flow(6 * 10**9, 3 * 10**9, 6), Flow(3 * 10**9, 6 * 10**9, 6), Flow(10**9, 10**9, 1)],
    ids=["unknown", "received less", "sent less", "short"],
)
def test_pair_whose_ends_differ_is_not_judged(gpu: GpuIndex, flow: Flow | None) -> None:
    assert pair_traffic(with_end(gpu, flow), [A, B], mesh(2)) is None


def test_ends_may_differ_by_a_burst() -> None:
    found = pair_traffic(with_end(A, Flow(5 * 10**9, 5 * 10**9, 5.5)), [A, B], mesh(2))
    assert found is not None
    assert 1900 < found[A, B].mb_per_s < 2000


def test_small_difference_of_a_quiet_pair_does_not_matter() -> None:
    found = pair_traffic(with_end(A, Flow(5_400 * 10**6, 6 * 10**9, 6)), [A, B], mesh(2))
    assert found is not None
    quiet = TrafficWindow(6, 12, {CounterKey(A, 0): Flow(6, 0, 6), CounterKey(B, 0): Flow(0, 0, 6)})
    assert pair_traffic(quiet, [A, B], mesh(2)) is not None


@pytest.mark.parametrize(
    ("weights", "shape"),
    [
        (equal(RING), PatternKind.RING),
        (equal(RING) | {(0, 2): 90}, PatternKind.RING),
        (equal(RING) | {(0, 2): 110}, NoShape.UNCLEAR),
        (equal(RING) | {(0, 2): 240}, NoShape.UNCLEAR),
        (equal(RING) | {(0, 2): 260}, NoShape.UNCLEAR),
        (equal(RING) | {(0, 2): 260, (1, 3): 300}, PatternKind.ALL_TO_ALL),
        (equal(list(pairwise(range(4)))), PatternKind.CHAIN),
        (equal([(0, 1), (1, 2), (1, 3)]), PatternKind.STAR),
        (equal(RING, 249), NoShape.QUIET),
        ({(0, 1): 251.0}, NoShape.UNCLEAR),
        ({}, NoShape.QUIET),
    ],
    ids=[
        "ring",
        "background",
        "edge or background, low",
        "edge or background, high",
        "ring with a chord",
        "all pairs",
        "chain",
        "star",
        "below 1 % of the capacity",
        "one pair of four GPUs",
        "nothing",
    ],
)
def test_shape_is_that_of_the_pairs_with_traffic(
    weights: Mapping[tuple[int, int], float], shape: Shape
) -> None:
    assert shape_of(traffic(weights)) is shape


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        ({}, UnknownReason.TOO_FEW),
        ({PatternKind.RING: 4}, UnknownReason.TOO_FEW),
        ({PatternKind.RING: 5}, ObservedPattern(PatternKind.RING, 1000, 5)),
        (
            {NoShape.UNCLEAR: 2, PatternKind.STAR: 7, PatternKind.CHAIN: 1},
            ObservedPattern(PatternKind.STAR, 700, 10),
        ),
        ({NoShape.UNCLEAR: 3, PatternKind.STAR: 6}, UnknownReason.DISAGREE),
        ({NoShape.QUIET: 3, PatternKind.STAR: 6}, UnknownReason.DISAGREE),
        ({NoShape.UNCLEAR: 7, PatternKind.STAR: 3}, UnknownReason.NO_PATTERN),
        ({NoShape.QUIET: 7}, UnknownReason.TOO_FEW),
        ({NoShape.QUIET: 8}, ObservedPattern(None, 1000, 8)),
        ({NoShape.QUIET: 9, PatternKind.RING: 1}, ObservedPattern(None, 900, 10)),
        ({NoShape.QUIET: 8, PatternKind.RING: 1}, UnknownReason.DISAGREE),
    ],
)
def test_windows_vote(shapes: Mapping[Shape, int], result: ObservedPattern | UnknownReason) -> None:
    assert vote(shapes) == result
