from collections import Counter

import pytest

from gputopo.patterns.model import PatternError
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.generate import GENERATOR_WORKLOADS, JobMix, generate

PINNED = [
    (0, 1, "vgg16", 20.0, True),
    (1, 2, "caffenet", 13.0, False),
    (2, 4, "resnet-50", 6.0, True),
]


def test_seed_gives_the_same_jobs_in_every_version_of_python() -> None:
    drawn = [
        (job.id, job.pattern.size, job.workload, job.service, job.sensitive)
        for job in generate(1, JobMix(count=3))
    ]
    assert drawn == PINNED


def test_default_mix_is_that_of_mapa() -> None:
    jobs = generate(7, JobMix(count=6000))
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
    jobs = generate(3, JobMix(count=5000, arrivals_per_time=0.25))
    arrivals = [job.arrival for job in jobs]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] / 5000 == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        (JobMix(count=0), "count: 0"),
        (JobMix(gpus=(3, 2)), "gpus: 3..2"),
        (JobMix(service=(0, 2)), "service: 0..2"),
        (JobMix(arrivals_per_time=0), "arrivals_per_time: 0"),
        (JobMix(arrivals_per_time=float("nan")), "arrivals_per_time: nan"),
        (JobMix(workloads={}), "workloads"),
    ],
)
def test_invalid_mix_is_rejected(mix: JobMix, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        generate(1, mix)


def test_size_above_that_of_a_pod_is_rejected() -> None:
    with pytest.raises(PatternError, match="gpus: 20"):
        generate(1, JobMix(gpus=(20, 20)))
