"""Generated jobs have the stated models, durations and arrivals."""

from collections import Counter
from statistics import fmean

import pytest

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sharing.generate import MEAN_SECONDS, OneGpuLoad, generate

RATES = {"a": 10.0, "b": 4.0, "c": 1.0}


def test_equal_seeds_give_equal_jobs() -> None:
    load = OneGpuLoad(20, RATES, 1.0, 8)
    assert generate(1, load) == generate(1, load)
    assert generate(1, load) != generate(2, load)


def test_models_have_equal_shares() -> None:
    counts = Counter(job.model for job in generate(1, OneGpuLoad(20, RATES, 1.0, 8)))
    assert sorted(counts.values()) == [6, 7, 7]


def test_loads_differ_only_in_arrivals() -> None:
    low, high = (generate(1, OneGpuLoad(50, RATES, load, 8)) for load in (0.5, 2.0))
    assert [job.arrival for job in low] == pytest.approx([4 * job.arrival for job in high])
    assert [job.seconds for job in low] == [job.seconds for job in high]
    assert {job.arrival for job in generate(1, OneGpuLoad(50, RATES, 0, 8))} == {0}


def test_offered_load_is_the_stated_one() -> None:
    jobs = generate(3, OneGpuLoad(20_000, RATES, 1.5, 8))
    assert fmean(job.seconds for job in jobs) == pytest.approx(MEAN_SECONDS, rel=0.05)
    offered = sum(job.seconds for job in jobs) / jobs[-1].arrival / 8
    assert offered == pytest.approx(1.5, rel=0.05)
    assert pytest.approx(16.8, abs=0.05) == MEAN_SECONDS / 3600


def test_durations_are_log_uniform() -> None:
    minutes = [job.seconds / 60 for job in generate(3, OneGpuLoad(20_000, RATES, 1, 8))]
    assert min(minutes) >= 10**1.5
    assert max(minutes) <= 10**4
    assert fmean(value > 1000 for value in minutes) == pytest.approx(0.2, abs=0.01)


def test_jobs_with_a_number_of_steps_take_their_time_alone() -> None:
    jobs = generate(1, OneGpuLoad(6, RATES, 1.0, 2, steps=1000))
    assert {job.model: job.seconds for job in jobs} == {"a": 100, "b": 250, "c": 1000}
    assert 0 < jobs[0].arrival < jobs[-1].arrival


def test_jobs_need_a_model() -> None:
    with pytest.raises(SimulationError, match="models: the list is empty"):
        generate(1, OneGpuLoad(1, {}, 1.0, 1))
