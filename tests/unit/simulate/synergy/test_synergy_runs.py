"""Queues of training jobs on a cluster, in rounds and event-driven."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult
from gputopo.sizing.orders import ORDERS
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.synergy.generate import JobLoad, generate
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from gputopo_simulate.synergy.model import SimulatedCluster, TrainingJob
from gputopo_simulate.synergy.report import job_hours, run_figures
from gputopo_simulate.synergy.run import SynergySettings, run
from support.synergy import FOUR_SERVERS, job, models, trace

ONE_SERVER = SimulatedCluster(servers=1, gpus=8, cpus=24, memory_gb=500)


def settings(
    order: str = "fifo", mechanism: str = "tune", round_seconds: float | None = None
) -> SynergySettings:
    runnable_only = mechanism in GUARANTEE_SHARES
    return SynergySettings(
        ORDERS[order],
        MECHANISMS[mechanism],
        runnable_only=runnable_only,
        round_seconds=round_seconds,
    )


def finish_hours(
    jobs: Sequence[TrainingJob],
    how: SynergySettings | None = None,
    cluster: SimulatedCluster = ONE_SERVER,
) -> list[float]:
    """Return the finish times in hours, by ID."""
    finished = run(cluster, jobs, how or settings())
    return [job.finish_seconds / 3600 for job in sorted(finished, key=lambda job: job.id)]


def test_single_job_runs_at_its_speed_up() -> None:
    alone = [job(0, "alexnet", hours=2.94)]
    assert finish_hours(alone, settings(mechanism="proportional")) == pytest.approx([2.94])
    assert finish_hours(alone, settings(mechanism="tune")) == pytest.approx([1])


def test_event_driven_run_gives_gpus_to_the_next_job_at_once() -> None:
    jobs = [job(0, "gnmt", 8, hours=1), job(1, "gnmt", 8, hours=2, arrival_seconds=60)]
    assert finish_hours(jobs) == pytest.approx([1, 3])


def test_run_in_rounds_gives_gpus_to_the_next_job_with_the_next_round() -> None:
    jobs = [job(0, "gnmt", 8, hours=1.01), job(1, "gnmt", 8, hours=2, arrival_seconds=60)]
    assert finish_hours(jobs, settings(round_seconds=300)) == pytest.approx([1.01, 3900 / 3600 + 2])


def test_jobs_that_arrive_in_the_first_second_start_together() -> None:
    jobs = [job(each, "gnmt", arrival_seconds=each / 1000) for each in range(3)]
    assert finish_hours(jobs, settings(round_seconds=300)) == pytest.approx([1 + 1 / 3600] * 3)


def test_next_round_begins_after_the_next_arrival_if_no_job_is_active() -> None:
    jobs = [job(0, hours=0.1, arrival_seconds=10), job(1, hours=0.1, arrival_seconds=100_000)]
    ends = finish_hours(jobs, settings(mechanism="proportional", round_seconds=300))
    assert ends == pytest.approx([300 / 3600 + 0.1, 100_200 / 3600 + 0.1], abs=1e-3)


@pytest.mark.parametrize(
    ("order", "by_end"),
    [("fifo", [0, 1, 2, 3]), ("srtf", [1, 3, 2, 0]), ("las", [3, 1, 2, 0]), ("ftf", [3, 1, 2, 0])],
)
def test_order_decides_which_job_finishes_first(order: str, by_end: list[int]) -> None:
    jobs = [
        job(0, "gnmt", 8, hours=4),
        job(1, "gnmt", 8, hours=1, arrival_seconds=300),
        job(2, "gnmt", 8, hours=2, arrival_seconds=300),
        job(3, "gnmt", 8, hours=0.1, arrival_seconds=3600),
    ]
    ends = finish_hours(jobs, settings(order, round_seconds=300))
    assert sorted(range(4), key=ends.__getitem__) == by_end


def test_equal_jobs_run_by_number() -> None:
    jobs = [job(number, "gnmt", 8) for number in (10, 9, 2)]
    assert finish_hours(jobs) == pytest.approx([1, 2, 3])


def test_order_of_the_list_does_not_matter() -> None:
    jobs = trace("dynamic")
    for how in (settings(), settings("las", round_seconds=300)):
        assert run(FOUR_SERVERS, jobs, how) == run(FOUR_SERVERS, jobs[::-1], how)


def test_matrix_of_one_gpu_is_scaled_if_the_share_was_not_measured_with_several() -> None:
    two_cpus_each = replace(ONE_SERVER, cpus=16)
    jobs = [job(0, "alexnet", 2, hours=0.66)]
    ends = finish_hours(jobs, settings(mechanism="proportional"), two_cpus_each)
    assert ends == pytest.approx([1])


def test_storage_bandwidth_is_shared() -> None:
    """AlexNet reads 125 MB/s at its best speed of 2.94; the slow server has half of that."""
    alone, two = [job(0, "alexnet", hours=2.94)], [job(n, "alexnet", hours=2.94) for n in (0, 1)]
    slow, enough = (replace(ONE_SERVER, storage_mb_per_s=rate) for rate in (62.5, 250))
    assert finish_hours(alone, cluster=enough) == pytest.approx([1])
    assert finish_hours(two, cluster=enough) == pytest.approx([1, 1])
    share = finish_hours(alone, settings(mechanism="proportional"), slow)
    assert share == pytest.approx([8 * 125 / 62.5])
    assert finish_hours(alone, settings(mechanism="marginal"), slow) < share
    assert finish_hours(alone, cluster=slow) <= share


def test_speed_up_of_several_gpus_is_the_one_measured_with_them() -> None:
    assert finish_hours([job(0, "alexnet", 2, hours=2.33)]) == pytest.approx([1])
    assert finish_hours([job(0, "alexnet", 1, hours=2.94)]) == pytest.approx([1])


@pytest.mark.parametrize("mechanism", sorted(GUARANTEE_SHARES - {"opt"}))
@pytest.mark.parametrize("name", ["static", "dynamic"])
def test_sizing_shortens_the_authors_traces(name: str, mechanism: str) -> None:
    ours, fair = (
        run_figures(
            [*map(job_hours, run(FOUR_SERVERS, trace(name), settings("fifo", each, 300.0)))]
        )
        for each in (mechanism, "proportional")
    )
    if mechanism == "proportional":
        assert ours == fair
    else:
        assert ours.mean_jct < 0.9 * fair.mean_jct
        assert ours.makespan < 0.9 * fair.makespan


def test_progress_counts_to_the_number_of_jobs() -> None:
    reported: list[tuple[int, int]] = []
    run(
        FOUR_SERVERS,
        trace("dynamic"),
        settings(),
        lambda done, total: reported.append((done, total)),
    )
    assert reported[-1] == (100, 100)
    assert reported == sorted(reported)


def test_mechanism_that_never_assigns_gpus_is_an_error() -> None:
    def assign_nothing(
        servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]
    ) -> SizingResult:
        return (
            SizingResult((), tuple(request.job for request in requests))
            if servers
            else SizingResult((), ())
        )

    for round_seconds in (None, 300.0):
        how = SynergySettings(
            ORDERS["fifo"], assign_nothing, runnable_only=False, round_seconds=round_seconds
        )
        with pytest.raises(
            SimulationError, match="job 3: gpus: 1; the mechanism never assigns GPUs"
        ):
            run(ONE_SERVER, [job(3), job(4, arrival_seconds=900)], how)


@pytest.mark.parametrize(
    ("cluster", "jobs", "message"),
    [
        (ONE_SERVER, [], "jobs: the list is empty"),
        (ONE_SERVER, [job(1), job(1)], "job 1: id: used by another job; IDs must be unique"),
        (ONE_SERVER, [job(1, gpus=9)], "job 1: gpus: 9; the cluster has 8"),
        (
            replace(ONE_SERVER, memory_gb=80),
            [job(5)],
            "job 5: model: every measurement of res18 has more CPUs or memory than the",
        ),
    ],
)
def test_jobs_that_would_never_finish_are_rejected(
    cluster: SimulatedCluster, jobs: list[TrainingJob], message: str
) -> None:
    with pytest.raises(SimulationError) as rejected:
        run(cluster, jobs, settings())
    assert str(rejected.value).startswith(message)


def test_generated_jobs_are_equal_for_equal_seeds_and_have_the_authors_split() -> None:
    load = JobLoad(jobs=1000, jobs_per_hour=9)
    jobs = generate(42, load, models())
    assert jobs == generate(42, load, models())
    assert jobs != generate(43, load, models())
    names = [each.model.name for each in jobs]
    assert 195 <= sum(names.count(image) for image in ("alexnet", "res18", "res50")) / 3 * 5 <= 205
    assert names.count("m5") + names.count("deepspeech") == 100
    assert jobs[-1].arrival_seconds / 3600 == pytest.approx(1000 / 9, rel=0.1)
    minutes = [each.iterations * each.model.step_seconds / 60 for each in jobs]
    assert min(minutes) > 31
    assert 9000 < max(minutes) < 10_000


def test_missing_model_of_generated_jobs_is_rejected() -> None:
    few = {name: model for name, model in models().items() if name != "m5"}
    with pytest.raises(
        SimulationError, match="models: m5 is missing; generated jobs use this model"
    ):
        generate(1, JobLoad(1, 1), few)
