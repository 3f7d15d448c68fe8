"""Load per step: integrals over time, only of a container that is alone."""

import math

import pytest

from gputopo.counters.load import LoadCollector
from gputopo.counters.model import GpuCounters, Load, LoadReading, LoadSource
from gputopo.topology.model import GpuIndex
from support.counters import gpu_indices

GPM, DCGM, UTILIZATION = LoadSource


def load(
    begin: float,
    end: float,
    occupancy: float = 0.4,
    dram: float | None = 0.2,
    source: LoadSource = GPM,
) -> LoadReading:
    return LoadReading(source, occupancy, dram, int(begin * 1e6), int(end * 1e6))


def collected(
    *readings: dict[int, LoadReading], gpus: int = 1, alone: bool = True
) -> LoadCollector:
    collector = LoadCollector(gpu_indices(gpus))
    for each in readings:
        collector.add(
            {GpuIndex(gpu): GpuCounters(load=one) for gpu, one in each.items()}, alone=alone
        )
    return collector


def test_load_is_mean_occupancy_times_time_of_a_step() -> None:
    collector = collected(*({0: load(n, n + 1)} for n in range(11)))
    assert collector.take(10, 40) == Load(GPM, 100_000, 50_000)


def test_load_is_the_mean_of_the_gpus() -> None:
    collector = collected(
        *({0: load(n, n + 1), 1: load(n, n + 1, 0.2, 0.0)} for n in range(11)), gpus=2
    )
    assert collector.take(10, 10) == Load(GPM, 300_000, 100_000)


def test_loads_are_weighted_by_their_time() -> None:
    collector = collected({0: load(0, 1)}, {0: load(1, 2, 0.9)}, {0: load(2, 5, 0.1)})
    assert collector.take(4, 4) == Load(GPM, 300_000, 200_000)


def test_first_interval_is_dropped_and_the_same_load_counts_once() -> None:
    same = {0: load(1, 2, 0.5)}
    collector = collected({0: load(0, 1, 1.0)}, same, same, same)
    assert collector.take(1, 1) == Load(GPM, 500_000, 200_000)


def test_overlap_of_two_intervals_counts_once() -> None:
    collector = collected({0: load(0, 1)}, {0: load(1, 2, 1.0)}, {0: load(0, 3, 0.0)})
    assert collector.take(2, 2) == Load(GPM, 500_000, 200_000)


def test_load_counts_again_after_the_time_went_back() -> None:
    collector = collected({0: load(9, 10)}, {0: load(1, 2, 1.0)}, {0: load(2, 3, 0.5)})
    assert collector.take(1, 1) == Load(GPM, 500_000, 200_000)


def test_best_source_with_enough_time_is_taken() -> None:
    first = {0: load(0, 1)}
    short = [{0: load(1, 2, 0.1)}, *({0: load(n, n + 1, source=DCGM)} for n in range(2, 11))]
    assert collected(first, *short).take(10, 10) == Load(DCGM, 400_000, 200_000)
    assert collected(first, {0: load(1, 5)}, {0: load(5, 10, source=UTILIZATION)}).take(10, 10) == (
        Load(GPM, 400_000, 200_000)
    )


def test_dram_is_unknown_if_one_value_is() -> None:
    collector = collected(
        {0: load(0, 1)}, {0: load(1, 2)}, {0: load(2, 3, dram=None)}, {0: load(3, 4)}
    )
    assert collector.take(3, 3) == Load(GPM, 400_000, None)


@pytest.mark.parametrize(
    "wrong",
    [
        load(1, 2, math.nan),
        load(1, 2, 1.1),
        load(1, 2, -0.1),
        load(1, 2, dram=math.nan),
        load(1, 2, dram=7),
        load(2, 2),
        load(2, 1),
        load(0, 121),
    ],
)
def test_implausible_load_is_ignored(wrong: LoadReading) -> None:
    assert collected({0: load(0, 1)}, {0: wrong}).take(1, 1) is None


@pytest.mark.parametrize(
    ("collector", "seconds", "steps"),
    [
        (collected({0: load(0, 1)}, {0: load(1, 2)}, alone=False), 1, 1),
        (collected({0: load(0, 1)}, {0: load(1, 2)}), 0, 0),
        (collected({0: load(0, 1)}, {0: load(1, 2)}), 5, 1),
        (collected({0: load(0, 1)}, {0: load(1, 2)}, gpus=2), 1, 1),
        (collected(), 1, 1),
    ],
    ids=["not alone", "no steps", "load of a short time", "one GPU without load", "no load"],
)
def test_load_is_unknown(collector: LoadCollector, seconds: float, steps: float) -> None:
    assert collector.take(seconds, steps) is None


def test_each_sample_has_its_own_load() -> None:
    collector = collected({0: load(0, 1)}, {0: load(1, 2)}, alone=False)
    assert collector.take(1, 1) is None
    collector.add({GpuIndex(0): GpuCounters(load=load(2, 3, 0.7))}, alone=True)
    assert collector.take(1, 1) == Load(GPM, 700_000, 200_000)
