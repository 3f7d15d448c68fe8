from collections import Counter

import pytest

from gputopo.patterns.model import PatternError
from gputopo_simulate.mapa.generate import GENERATOR_WORKLOADS, Mix, generate
from gputopo_simulate.mapa.model import SimulationError

PINNED = [
    (0, 1, "vgg16", 20.0, True),
    (1, 2, "caffenet", 13.0, False),
    (2, 4, "resnet-50", 6.0, True),
]


def test_a_seed_gives_these_jobs_in_every_version_of_python() -> None:
    drawn = [
        (job.id, job.pattern.size, job.workload, job.service, job.sensitive)
        for job in generate(1, Mix(count=3))
    ]
    assert drawn == PINNED


def test_the_mix_is_that_of_mapa() -> None:
    jobs = generate(7, Mix(count=6000))
    sizes = Counter(job.pattern.size for job in jobs)
    workloads = Counter(job.workload for job in jobs)
    assert set(sizes) == {1, 2, 3, 4, 5}
    assert min(sizes.values()) > 1000
    assert set(workloads) == set(GENERATOR_WORKLOADS)
    assert min(workloads.values()) > 850
    assert {job.service for job in jobs} == {float(service) for service in range(5, 25)}
    assert {job.arrival for job in jobs} == {0}
    assert sum(job.sensitive for job in jobs) / 6000 == pytest.approx(2 / 3, abs=0.03)


def test_arrivals_follow_the_rate() -> None:
    jobs = generate(3, Mix(count=5000, arrivals_per_time=0.25))
    arrivals = [job.arrival for job in jobs]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] / 5000 == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    ("mix", "told"),
    [
        (Mix(count=0), "count: 0"),
        (Mix(gpus=(3, 2)), "gpus: 3..2"),
        (Mix(service=(0, 2)), "service: 0..2"),
        (Mix(arrivals_per_time=0), "arrivals_per_time: 0"),
        (Mix(arrivals_per_time=float("nan")), "arrivals_per_time: nan"),
        (Mix(workloads={}), "workloads"),
    ],
)
def test_what_cannot_be_drawn_is_refused(mix: Mix, told: str) -> None:
    with pytest.raises(SimulationError, match=told):
        generate(1, mix)


def test_sizes_beyond_a_pod_are_refused() -> None:
    with pytest.raises(PatternError, match="gpus: 20"):
        generate(1, Mix(gpus=(20, 20)))
