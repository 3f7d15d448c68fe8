from collections import Counter

import pytest

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.generate import GENERATOR_WORKLOADS, generate

PINNED = [
    (0, 1, "vgg16", 20.0, True),
    (1, 2, "caffenet", 13.0, False),
    (2, 4, "resnet-50", 6.0, True),
]


def test_seed_gives_the_same_jobs_in_every_version_of_python() -> None:
    drawn = [
        (job.id, job.pattern.size, job.workload, job.service, job.sensitive)
        for job in generate(1, 3)
    ]
    assert drawn == PINNED


def test_default_mix_is_that_of_mapa() -> None:
    jobs = generate(7, 6000)
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
    jobs = generate(3, 5000, arrivals_per_time=0.25)
    arrivals = [job.arrival for job in jobs]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] / 5000 == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    ("count", "rate", "message"),
    [
        (0, None, "count: 0"),
        (1, 0, "arrivals_per_time: 0"),
        (1, float("nan"), "arrivals_per_time: nan"),
    ],
)
def test_invalid_number_or_rate_is_rejected(count: int, rate: float | None, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        generate(1, count, rate)
