import pytest

from gputopo.patterns.model import ring
from gputopo.placement.model import PolicyName
from gputopo_simulate.mapa.model import FinishedJob, Result, SimulatedJob
from gputopo_simulate.mapa.statistics import (
    Group,
    Quartiles,
    effective_gb_per_s,
    interval,
    of_group,
    quartiles,
    speed_up,
    summarize,
)


def finished(
    number: int, gpus: int, start: float, end: float, *, sensitive: bool = True, mb: float = 1000
) -> FinishedJob:
    job = SimulatedJob(number, ring(gpus), 1, end - start, sensitive)
    return FinishedJob(job, "n", (), start, end, 0, mb if gpus > 1 else None, "eq2")


def result(*jobs: FinishedJob) -> Result:
    return Result(PolicyName.BASELINE, "default", "fixed", "fifo", waiting=False, jobs=jobs)


RUN = result(
    finished(0, 1, 1, 3),
    finished(1, 2, 2, 6, mb=20_000),
    finished(2, 3, 3, 11, mb=10_000),
    finished(3, 2, 3, 4, sensitive=False, mb=-5_000),
)


def test_quartiles_lie_between_two_values_in_proportion() -> None:
    assert quartiles([10, 1, 3, 2]) == Quartiles(1, 1.75, 2.5, 4.75, 10)
    assert quartiles([4]) == Quartiles(4, 4, 4, 4, 4)


def test_nothing_has_no_quartiles() -> None:
    assert quartiles([]) is None


@pytest.mark.parametrize(
    ("group", "ids"),
    [(Group.ALL, [0, 1, 2, 3]), (Group.SENSITIVE, [1, 2]), (Group.INSENSITIVE, [3])],
)
def test_jobs_on_one_gpu_are_neither_sensitive_nor_insensitive(
    group: Group, ids: list[int]
) -> None:
    assert [one.job.id for one in of_group(RUN, group)] == ids


def test_jobs_on_one_gpu_have_no_bandwidth_even_where_a_program_gives_them_one() -> None:
    job = SimulatedJob(0, ring(1), 0, 1, sensitive=True)
    assert effective_gb_per_s([FinishedJob(job, "n", (), 0, 1, 0, 12_335, "eq2")]) == []
    assert effective_gb_per_s(RUN.jobs) == [20, 10, -5]


def test_a_summary_holds_a_groups_figures_and_the_whole_runs_throughput() -> None:
    summary = summarize(RUN, Group.SENSITIVE)
    assert summary.jobs == 2
    assert summary.effective_gb_per_s == Quartiles(10, 12.5, 15, 17.5, 20)
    assert summary.execution_time == Quartiles(4, 5, 6, 7, 8)
    assert summary.queueing_time == Quartiles(1, 1.25, 1.5, 1.75, 2)
    assert summary.makespan == 11
    assert summary.throughput == 4 / 11


def test_speed_up_is_above_one_for_shorter_times_and_more_throughput() -> None:
    slow = summarize(result(finished(0, 2, 0, 4), finished(1, 2, 0, 12)))
    fast = summarize(result(finished(0, 2, 0, 2), finished(1, 2, 0, 8)))
    gain = speed_up(slow, fast)
    assert gain is not None
    assert (gain.minimum, gain.maximum, gain.throughput) == (2, 1.5, 1.5)
    assert (gain.lower, gain.median, gain.upper) == (6 / 3.5, 8 / 5, 10 / 6.5)


def test_a_group_without_jobs_has_no_speed_up() -> None:
    alone = result(finished(0, 1, 0, 4))
    empty, full = summarize(alone, Group.SENSITIVE), summarize(RUN, Group.SENSITIVE)
    assert speed_up(empty, full) is None
    assert speed_up(full, empty) is None


def test_an_interval_follows_students_t() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.half_width == pytest.approx(4.303 / 3**0.5)


def test_one_seed_has_an_interval_of_no_width() -> None:
    assert interval([7.0]).half_width == 0


def test_many_seeds_use_the_last_t() -> None:
    values = [0.0, 1.0] * 30
    assert interval(values).half_width == pytest.approx(2.042 * 0.5 * (60 / 59) ** 0.5 / 60**0.5)
