"""Upper bounds of the share of communication and of the slowdown on slow links."""

import math

import pytest

from gputopo.counters.share import (
    StepTraffic,
    busiest_gpu_bytes,
    communication_share,
    most_slowdown_percent,
)
from gputopo.errors import InvalidInputError
from gputopo.patterns.model import PatternKind, build


def test_share_is_the_time_of_the_bytes_and_at_most_the_step() -> None:
    assert communication_share(StepTraffic(5e9, 50_000, 0.5)) == 0.2
    assert communication_share(StepTraffic(50e9, 50_000, 0.5)) == 1
    assert communication_share(StepTraffic(0, 50_000, 0.5)) == 0


@pytest.mark.parametrize(
    ("measured_on", "percent"),
    # On 25 GB/s the step may hide 0.1 s of its 0.5 s, so it takes 0.4 s to 0.5 s on 50 GB/s.
    [(50_000, 30), (25_000, 38)],
)
def test_slowdown_is_from_the_best_links(measured_on: float, percent: int) -> None:
    assert most_slowdown_percent(StepTraffic(5e9, measured_on, 0.5), 50_000, 20_000) == percent


def test_slowdown_is_at_most_the_ratio_of_the_bandwidths() -> None:
    assert most_slowdown_percent(StepTraffic(1e12, 50_000, 0.5), 50_000, 20_000) == 150
    assert most_slowdown_percent(StepTraffic(1e12, 20_000, 0.5), 50_000, 20_000) == 150


@pytest.mark.parametrize("traffic", [StepTraffic(0, 20_000, 0.5), StepTraffic(5e9, 20_000, 0.5)])
def test_equal_links_or_no_traffic_are_no_slowdown(traffic: StepTraffic) -> None:
    worst = 20_000 if traffic.bytes_per_step else 10_000
    assert most_slowdown_percent(traffic, 20_000, worst) == 0


@pytest.mark.parametrize(
    ("kind", "size", "factor"),
    [
        (PatternKind.RING, 2, 1),
        (PatternKind.RING, 8, 1),
        (PatternKind.STAR, 4, 2),
        (PatternKind.STAR, 8, 4),
        (PatternKind.CHAIN, 4, 4 / 3),
        (PatternKind.ALL_TO_ALL, 8, 1),
        (None, 8, 4),
    ],
)
def test_busiest_gpu_has_the_most_edges(kind: PatternKind | None, size: int, factor: float) -> None:
    pattern = None if kind is None else build(kind, size)
    assert busiest_gpu_bytes(3e9, size, pattern) == pytest.approx(3e9 * factor)


@pytest.mark.parametrize("size", range(2, 17))
def test_no_pattern_has_a_busier_gpu_than_a_star(size: int) -> None:
    unknown = busiest_gpu_bytes(1, size, None)
    kinds = [kind for kind in PatternKind if kind is not PatternKind.CUSTOM]
    assert all(busiest_gpu_bytes(1, size, build(kind, size)) <= unknown + 1e-9 for kind in kinds)


@pytest.mark.parametrize(
    "traffic",
    [
        StepTraffic(-1, 1, 1),
        StepTraffic(math.nan, 1, 1),
        StepTraffic(1, 0, 1),
        StepTraffic(1, 1, 0),
    ],
)
def test_invalid_traffic_is_rejected(traffic: StepTraffic) -> None:
    with pytest.raises(InvalidInputError, match="traffic: "):
        communication_share(traffic)
    with pytest.raises(InvalidInputError, match="traffic: "):
        most_slowdown_percent(traffic, 1, 1)


@pytest.mark.parametrize(("best", "worst"), [(10, 0), (10, 6), (4, 1), (math.nan, 1)])
def test_bandwidths_out_of_order_are_rejected(best: float, worst: float) -> None:
    with pytest.raises(InvalidInputError, match=f"worst {worst}, measured 5 and best {best}"):
        most_slowdown_percent(StepTraffic(1, 5, 1), best, worst)


def test_bytes_of_the_busiest_gpu_need_a_pattern_of_several_gpus() -> None:
    with pytest.raises(InvalidInputError, match="size: 1; must be at least 2"):
        busiest_gpu_bytes(1, 1, None)
    with pytest.raises(InvalidInputError, match="size: 3; must be size, 4"):
        busiest_gpu_bytes(1, 4, build(PatternKind.RING, 3))
