"""Queues of training jobs on a cluster: who ends when, in rounds and event by event."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult
from gputopo.sizing.orders import ORDERS
from gputopo_simulate.synergy.generate import Load, generate
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from gputopo_simulate.synergy.model import Cluster, SynergyError, TrainingJob
from gputopo_simulate.synergy.report import figures, times
from gputopo_simulate.synergy.run import Settings, run
from support.synergy import FOUR_SERVERS, job, models, trace

ONE_SERVER = Cluster(servers=1, gpus=8, cpus=24, memory_gb=500)


def settings(
    order: str = "fifo", allocation: str = "tune", round_s: float | None = None
) -> Settings:
    in_turn = allocation in GUARANTEE_SHARES
    return Settings(ORDERS[order], MECHANISMS[allocation], in_turn=in_turn, round_s=round_s)


def ends_h(
    jobs: Sequence[TrainingJob], how: Settings | None = None, cluster: Cluster = ONE_SERVER
) -> list[float]:
    """Return when jobs end, in hours and by id."""
    finished = run(cluster, jobs, how or settings())
    return [job.finish_s / 3600 for job in sorted(finished, key=lambda job: job.id)]


def test_a_job_alone_takes_its_time_over_its_speed_up() -> None:
    alone = [job(0, "alexnet", hours=2.94)]
    assert ends_h(alone, settings(allocation="proportional")) == pytest.approx([2.94])
    assert ends_h(alone, settings(allocation="tune")) == pytest.approx([1])


def test_event_by_event_gpus_go_on_to_the_next_job_at_once() -> None:
    jobs = [job(0, "gnmt", 8, hours=1), job(1, "gnmt", 8, hours=2, arrival_s=60)]
    assert ends_h(jobs) == pytest.approx([1, 3])


def test_in_rounds_gpus_go_on_with_the_next_round() -> None:
    jobs = [job(0, "gnmt", 8, hours=1.01), job(1, "gnmt", 8, hours=2, arrival_s=60)]
    assert ends_h(jobs, settings(round_s=300)) == pytest.approx([1.01, 3900 / 3600 + 2])


def test_jobs_that_all_come_in_the_first_second_start_together_after_it() -> None:
    jobs = [job(each, "gnmt", arrival_s=each / 1000) for each in range(3)]
    assert ends_h(jobs, settings(round_s=300)) == pytest.approx([1 + 1 / 3600] * 3)


def test_rounds_wait_for_jobs_where_for_a_while_nobody_is_there() -> None:
    jobs = [job(0, hours=0.1, arrival_s=10), job(1, hours=0.1, arrival_s=100_000)]
    ends = ends_h(jobs, settings(allocation="proportional", round_s=300))
    assert ends == pytest.approx([300 / 3600 + 0.1, 100_200 / 3600 + 0.1], abs=1e-3)


@pytest.mark.parametrize(
    ("order", "by_end"),
    [("fifo", [0, 1, 2, 3]), ("srtf", [1, 3, 2, 0]), ("las", [3, 1, 2, 0]), ("ftf", [3, 1, 2, 0])],
)
def test_orders_differ_by_who_waits(order: str, by_end: list[int]) -> None:
    jobs = [
        job(0, "gnmt", 8, hours=4),
        job(1, "gnmt", 8, hours=1, arrival_s=300),
        job(2, "gnmt", 8, hours=2, arrival_s=300),
        job(3, "gnmt", 8, hours=0.1, arrival_s=3600),
    ]
    ends = ends_h(jobs, settings(order, round_s=300))
    assert sorted(range(4), key=ends.__getitem__) == by_end


def test_equal_jobs_of_one_time_go_by_their_numbers() -> None:
    jobs = [job(number, "gnmt", 8) for number in (10, 9, 2)]
    assert ends_h(jobs) == pytest.approx([1, 2, 3])


def test_list_may_be_in_any_order() -> None:
    jobs = trace("dynamic")
    for how in (settings(), settings("las", round_s=300)):
        assert run(FOUR_SERVERS, jobs, how) == run(FOUR_SERVERS, jobs[::-1], how)


def test_a_share_below_what_was_measured_with_several_gpus_goes_by_one_gpu_scaled() -> None:
    two_cpus_each = replace(ONE_SERVER, cpus=16)
    jobs = [job(0, "alexnet", 2, hours=0.66)]
    ends = ends_h(jobs, settings(allocation="proportional"), two_cpus_each)
    assert ends == pytest.approx([1])


def test_what_storage_lets_a_job_read_is_a_fourth_thing_to_share() -> None:
    """AlexNet reads 125 MB/s at its best of 2.94, and a server of 62.5 MB/s has half of that."""
    alone, two = [job(0, "alexnet", hours=2.94)], [job(n, "alexnet", hours=2.94) for n in (0, 1)]
    slow, enough = (replace(ONE_SERVER, storage_mb_per_s=rate) for rate in (62.5, 250))
    assert ends_h(alone, cluster=enough) == pytest.approx([1])
    assert ends_h(two, cluster=enough) == pytest.approx([1, 1])
    share = ends_h(alone, settings(allocation="proportional"), slow)
    assert share == pytest.approx([8 * 125 / 62.5])
    assert ends_h(alone, settings(allocation="marginal"), slow) < share
    assert ends_h(alone, cluster=slow) <= share


def test_several_gpus_have_the_speed_up_measured_with_them() -> None:
    assert ends_h([job(0, "alexnet", 2, hours=2.33)]) == pytest.approx([1])
    assert ends_h([job(0, "alexnet", 1, hours=2.94)]) == pytest.approx([1])


@pytest.mark.parametrize("allocation", sorted(GUARANTEE_SHARES - {"opt"}))
@pytest.mark.parametrize("name", ["static", "dynamic"])
def test_moving_cpus_shortens_the_authors_traces(name: str, allocation: str) -> None:
    ours, fair = (
        figures([*map(times, run(FOUR_SERVERS, trace(name), settings("fifo", each, 300.0)))])
        for each in (allocation, "proportional")
    )
    if allocation == "proportional":
        assert ours == fair
    else:
        assert ours.mean_jct < 0.9 * fair.mean_jct
        assert ours.makespan < 0.9 * fair.makespan


def test_progress_counts_to_the_number_of_jobs() -> None:
    told: list[tuple[int, int]] = []
    run(FOUR_SERVERS, trace("dynamic"), settings(), lambda done, total: told.append((done, total)))
    assert told[-1] == (100, 100)
    assert told == sorted(told)


def test_jobs_that_are_never_given_a_gpu_are_told_of() -> None:
    def nobody(
        servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]
    ) -> SizingResult:
        return (
            SizingResult((), tuple(request.job for request in requests))
            if servers
            else SizingResult((), ())
        )

    for round_s in (None, 300.0):
        how = Settings(ORDERS["fifo"], nobody, in_turn=False, round_s=round_s)
        with pytest.raises(SynergyError, match="job 3: gpus: it is never given any"):
            run(ONE_SERVER, [job(3), job(4, arrival_s=900)], how)


@pytest.mark.parametrize(
    ("cluster", "jobs", "says"),
    [
        (ONE_SERVER, [], "jobs: the list is empty"),
        (ONE_SERVER, [job(1), job(1)], "job 1: id: another job has it"),
        (ONE_SERVER, [job(1, gpus=9)], "job 1: gpus: 9 of 8 there are"),
        (
            replace(ONE_SERVER, memory_gb=80),
            [job(5)],
            "job 5: model: res18 is not known to run with its share of 3 CPUs and 10 GB per GPU",
        ),
    ],
)
def test_what_would_never_end_is_refused(
    cluster: Cluster, jobs: list[TrainingJob], says: str
) -> None:
    with pytest.raises(SynergyError) as refused:
        run(cluster, jobs, settings())
    assert str(refused.value) == says


def test_drawn_jobs_are_the_same_for_the_same_seed_and_as_the_authors_split_them() -> None:
    load = Load(jobs=1000, jobs_per_hour=9)
    jobs = generate(42, load, models())
    assert jobs == generate(42, load, models())
    assert jobs != generate(43, load, models())
    names = [each.model.name for each in jobs]
    assert 195 <= sum(names.count(image) for image in ("alexnet", "res18", "res50")) / 3 * 5 <= 205
    assert names.count("m5") + names.count("deepspeech") == 100
    assert jobs[-1].arrival_s / 3600 == pytest.approx(1000 / 9, rel=0.1)
    minutes = [each.iterations * each.model.step_s / 60 for each in jobs]
    assert min(minutes) > 31
    assert 9000 < max(minutes) < 10_000


def test_models_that_are_drawn_must_be_known() -> None:
    few = {name: model for name, model in models().items() if name != "m5"}
    with pytest.raises(SynergyError, match="models: m5 is drawn and not among them"):
        generate(1, Load(1, 1), few)
