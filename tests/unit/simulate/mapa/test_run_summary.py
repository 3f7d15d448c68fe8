import pytest

from gputopo.patterns.model import ring
from gputopo.placement.model import PolicyName
from gputopo_simulate.mapa.model import FinishedSimulatedJob, SimulatedJob, SimulationResult
from gputopo_simulate.mapa.summary import (
    JobGroup,
    Quartiles,
    effective_gb_per_s,
    jobs_in_group,
    quartiles,
    speed_up,
    summarize,
)


def finished(
    number: int, gpus: int, start: float, end: float, *, sensitive: bool = True, mb: float = 1000
) -> FinishedSimulatedJob:
    job = SimulatedJob(number, ring(gpus), 1, end - start, sensitive)
    return FinishedSimulatedJob(job, "n", (), start, end, 0, mb if gpus > 1 else None, "eq2")


def result(*jobs: FinishedSimulatedJob) -> SimulationResult:
    return SimulationResult(
        PolicyName.BASELINE, "default", "fixed", "fifo", waiting=False, jobs=jobs
    )


RUN = result(
    finished(0, 1, 1, 3),
    finished(1, 2, 2, 6, mb=20_000),
    finished(2, 3, 3, 11, mb=10_000),
    finished(3, 2, 3, 4, sensitive=False, mb=-5_000),
)


def test_quartiles_are_interpolated_between_two_values() -> None:
    assert quartiles([10, 1, 3, 2]) == Quartiles(1, 1.75, 2.5, 4.75, 10)
    assert quartiles([4]) == Quartiles(4, 4, 4, 4, 4)


def test_no_values_have_no_quartiles() -> None:
    assert quartiles([]) is None


@pytest.mark.parametrize(
    ("group", "ids"),
    [(JobGroup.ALL, [0, 1, 2, 3]), (JobGroup.SENSITIVE, [1, 2]), (JobGroup.INSENSITIVE, [3])],
)
def test_jobs_on_one_gpu_belong_to_no_group_of_sensitivity(group: JobGroup, ids: list[int]) -> None:
    assert [one.job.id for one in jobs_in_group(RUN, group)] == ids


def test_bandwidth_of_jobs_on_one_gpu_is_ignored() -> None:
    job = SimulatedJob(0, ring(1), 0, 1, sensitive=True)
    assert effective_gb_per_s([FinishedSimulatedJob(job, "n", (), 0, 1, 0, 12_335, "eq2")]) == []
    assert effective_gb_per_s(RUN.jobs) == [20, 10, -5]


def test_summary_has_figures_of_the_group_and_throughput_of_the_run() -> None:
    summary = summarize(RUN, JobGroup.SENSITIVE)
    assert summary.jobs == 2
    assert summary.effective_gb_per_s == Quartiles(10, 12.5, 15, 17.5, 20)
    assert summary.execution_time == Quartiles(4, 5, 6, 7, 8)
    assert summary.makespan == 11
    assert summary.throughput == 4 / 11


def test_speed_up_is_above_one_for_shorter_times_and_more_throughput() -> None:
    slow = summarize(result(finished(0, 2, 0, 4), finished(1, 2, 0, 12)))
    fast = summarize(result(finished(0, 2, 0, 2), finished(1, 2, 0, 8)))
    gain = speed_up(slow, fast)
    assert gain is not None
    assert (gain.minimum, gain.maximum, gain.throughput) == (2, 1.5, 1.5)
    assert (gain.lower, gain.median, gain.upper) == (6 / 3.5, 8 / 5, 10 / 6.5)


def test_group_without_jobs_has_no_speed_up() -> None:
    alone = result(finished(0, 1, 0, 4))
    empty, full = summarize(alone, JobGroup.SENSITIVE), summarize(RUN, JobGroup.SENSITIVE)
    assert speed_up(empty, full) is None
    assert speed_up(full, empty) is None
