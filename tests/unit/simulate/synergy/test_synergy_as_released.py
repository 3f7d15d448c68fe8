"""The authors' figures of Synergy, digit by digit, and the quirks of their program behind them."""

import csv
from collections.abc import Sequence

import pytest

from gputopo.sensitivity.models import parse_models
from gputopo_simulate.synergy.model import Cluster, FinishedJob, SynergyError, TrainingJob
from gputopo_simulate.synergy.released.program import run_as_released
from gputopo_simulate.synergy.report import figures, logged_times, nearest, times
from support.synergy import DATA, FOUR_SERVERS, SIXTEEN_SERVERS, job, models, trace

MECHANISMS = {"fair": "proportional", "tune": "tune"}
ONE_SERVER = Cluster(servers=1, gpus=8, cpus=24, memory_gb=500)


def released_rows() -> list[dict[str, str]]:
    with (DATA / "released_results.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [row for row in rows if row["scenario"] in {"static100", "dynamic100"}]


def ends_h(cluster: Cluster, jobs: Sequence[TrainingJob], order: str, how: str) -> list[float]:
    """Return when jobs end, in hours and by id; rounds begin at a second or at 0."""
    finished = run_as_released(cluster, jobs, order, how)
    return [job.finish_s / 3600 for job in sorted(finished, key=lambda job: job.id)]


def test_all_rows_for_the_two_traces_are_tried() -> None:
    assert len(released_rows()) == 20


@pytest.mark.parametrize("row", released_rows(), ids=lambda row: " ".join(list(row.values())[:5]))
def test_every_printed_figure_of_the_authors_program_is_given_to_the_digit(
    row: dict[str, str],
) -> None:
    jobs = trace(row["scenario"].removesuffix("100"))
    finished = run_as_released(
        FOUR_SERVERS, jobs, row["policy"].lower(), MECHANISMS[row["mechanism"]]
    )
    log = figures([*map(logged_times, finished)], nearest)
    found = {"makespan_h": log.makespan, "mean_jct_h": log.mean_jct, "p99_jct_h": log.p99_jct}
    digits = len(row["value"].partition(".")[2])
    assert round(found[row["metric"]], digits) == float(row["value"])


def test_progress_counts_to_the_number_of_jobs() -> None:
    told: list[tuple[int, int]] = []
    run_as_released(
        FOUR_SERVERS, trace("dynamic"), "fifo", "tune", lambda done, all_: told.append((done, all_))
    )
    assert told[-1] == (100, 100)
    assert told == sorted(told)


def test_the_log_has_two_decimals_and_the_nearest_of_its_times() -> None:
    finished = [FinishedJob(number, 0, 3600 * (number + 0.004)) for number in range(100)]
    exact = figures([*map(times, finished)])
    assert exact.p99_jct == pytest.approx(98.014)
    assert exact.mean_jct == pytest.approx(49.504)
    log = figures([*map(logged_times, finished)], nearest)
    assert (log.p99_jct, log.mean_jct, log.makespan) == (98, 49.5, 99)


def test_a_job_ends_with_the_round_and_does_whole_steps_in_each() -> None:
    three_rounds = TrainingJob(0, models()["res50"], 1, 0, 2 * 384 + 1)  # 300 s / 0.78 s is 384.6
    assert ends_h(ONE_SERVER, [three_rounds], "fifo", "proportional") == [(1 + 3 * 300) / 3600]


def test_jobs_that_all_come_in_the_first_second_are_seen_after_it() -> None:
    late = [job(0, hours=0.01), job(1, hours=0.01, arrival_s=301)]
    assert ends_h(ONE_SERVER, late[:1], "fifo", "proportional") == [301 / 3600]
    assert ends_h(ONE_SERVER, late, "fifo", "proportional") == [300 / 3600, 900 / 3600]


def test_rounds_go_on_where_for_a_while_nobody_is_there() -> None:
    jobs = [job(0, hours=0.01, arrival_s=10), job(1, hours=0.01, arrival_s=100_000)]
    assert ends_h(ONE_SERVER, jobs, "fifo", "tune") == [600 / 3600, 100_500 / 3600]


def test_a_job_has_its_speed_up_with_its_whole_demand_and_else_none() -> None:
    two, three = ([job(each, "alexnet", hours=2.94) for each in range(count)] for count in (2, 3))
    fast = 3900 / 3600 + 1 / 3600
    assert ends_h(ONE_SERVER, two, "fifo", "tune") == pytest.approx([fast, fast], abs=0.1)
    third = ends_h(ONE_SERVER, three, "fifo", "tune")
    assert third[1] == pytest.approx(fast, abs=0.1)
    assert [third[0], third[2]] == pytest.approx([1.7, 1.7], abs=0.2)


def test_greedy_lets_a_job_wait_that_others_leave_no_cpus() -> None:
    three = [job(each, "alexnet", hours=2.94) for each in range(3)]
    assert ends_h(ONE_SERVER, three, "fifo", "greedy") == pytest.approx([1, 1, 2], abs=0.1)


def test_jobs_whose_gpus_do_not_fit_are_passed_by() -> None:
    jobs = [job(0, "gnmt", 4), job(1, "gnmt", 8), job(2, "gnmt", 4)]
    ends = ends_h(ONE_SERVER, jobs, "fifo", "proportional")
    assert ends == pytest.approx([1, 2, 1], abs=0.1)


def test_las_has_the_big_jobs_placed_first_when_it_tunes() -> None:
    jobs = [job(0, "res18", 1), *(job(each, "gnmt", 1) for each in range(1, 4)), job(4, "m5", 4)]
    assert len(ends_h(ONE_SERVER, jobs, "las", "tune")) == 5


def test_victims_are_cut_to_their_share_until_the_last_fits() -> None:
    hungry = [job(each, "alexnet", hours=2.94) for each in range(2)]
    modest = [job(each, "gnmt", hours=1) for each in range(2, 8)]
    ends = ends_h(ONE_SERVER, [*hungry, *modest], "fifo", "tune")
    assert ends[2:] == pytest.approx([1] * 6, abs=0.1)
    assert ends[0] == pytest.approx(1 + 0.65, abs=0.35)


def test_several_gpus_find_room_on_the_first_server_that_has_so_many() -> None:
    cluster = Cluster(servers=2, gpus=8, cpus=24, memory_gb=500)
    hungry = [job(each, "alexnet", hours=2.94) for each in range(4)]
    ends = ends_h(cluster, [*hungry, job(4, "gnmt", 4, hours=3)], "fifo", "tune")
    assert ends[4] == pytest.approx(3, abs=0.1)
    assert ends[1:4] == pytest.approx([1] * 3, abs=0.1)
    assert ends[0] == pytest.approx(1 + 1.94 / 2.94, abs=0.1)


def test_several_servers_are_split_over_where_no_single_one_has_room() -> None:
    cluster = Cluster(servers=2, gpus=8, cpus=24, memory_gb=500)
    jobs = [*(job(each, "alexnet", hours=5) for each in range(4)), job(4, "res50", 16, hours=1)]
    ends = ends_h(cluster, jobs, "fifo", "proportional")
    assert ends[4] == pytest.approx(6, abs=0.2)
    first = [*(job(each, "gnmt", 4, hours=1) for each in range(2)), job(2, "m5", 8, hours=1)]
    assert ends_h(cluster, first, "fifo", "tune")[2] == pytest.approx(1, abs=0.1)


def test_a_job_of_two_halves_of_servers_finds_room_at_the_cost_of_both() -> None:
    cluster = Cluster(servers=2, gpus=4, cpus=12, memory_gb=250)
    jobs = [*(job(each, "shufflenet", 1, hours=9) for each in range(4)), job(4, "deepspeech", 4)]
    ends = ends_h(cluster, jobs, "fifo", "tune")
    assert ends[4] == pytest.approx(1, abs=0.1)


def test_whoever_starved_for_a_thousand_hours_goes_first() -> None:
    one_gpu = Cluster(servers=1, gpus=1, cpus=3, memory_gb=62.5)
    stream = [job(each, "gnmt", hours=10, arrival_s=each * 9.9 * 3600) for each in range(1, 120)]
    ends = ends_h(one_gpu, [job(0, "gnmt", hours=100), *stream], "srtf", "proportional")
    assert ends[0] == pytest.approx(9.9 + 1000 + 90.1, abs=0.5)


@pytest.mark.parametrize("order", ["fifo", "srtf", "las", "ftf"])
def test_orders_differ_by_who_waits(order: str) -> None:
    jobs = [
        job(0, "gnmt", 8, hours=4),
        job(1, "gnmt", 8, hours=1, arrival_s=1000),
        job(2, "gnmt", 8, hours=2, arrival_s=2000),
    ]
    ends = ends_h(ONE_SERVER, jobs, order, "proportional")
    assert (
        sorted(range(3), key=ends.__getitem__)
        == {
            "fifo": [0, 1, 2],
            "srtf": [1, 2, 0],
            "las": [1, 2, 0],
            "ftf": [0, 2, 1],
        }[order]
    )


def test_demands_beyond_a_server_are_cut_and_the_speed_up_with_them() -> None:
    share = ends_h(ONE_SERVER, [job(0, "alexnet", 4, hours=3)], "fifo", "proportional")
    cut = ends_h(ONE_SERVER, [job(0, "alexnet", 4, hours=3)], "fifo", "tune")
    speed_up = 1 + (2.94 - 1) / (48 - 12) * (24 - 12)
    assert share[0] / cut[0] == pytest.approx(speed_up, rel=0.1)
    assert ends_h(SIXTEEN_SERVERS, [job(0, "alexnet", 16, hours=3)], "fifo", "tune") == share
    assert ends_h(SIXTEEN_SERVERS, [job(0, "gnmt", 16, hours=3)], "fifo", "tune") == share


@pytest.mark.parametrize(
    ("cluster", "jobs", "says"),
    [
        (ONE_SERVER, [], "jobs: the list is empty"),
        (ONE_SERVER, [job(1), job(1)], "job 1: id: another job has it"),
        (ONE_SERVER, [job(1, gpus=16)], "job 1: gpus: 16 of 8 there are"),
        (FOUR_SERVERS, [job(1, gpus=3)], "job 1: gpus: 3 is not one of 1, 2, 4, 8, 16"),
        (
            Cluster(1, 8, 40, 500),
            [job(7)],
            "job 7: model: res18 has no profile for 5 CPUs per GPU, only for 3, 4, 6",
        ),
        (
            Cluster(1, 8, 24, 50),
            [job(7, "deepspeech")],
            "job 7: model: deepspeech wants 62.5 GB per GPU, more than a server has",
        ),
    ],
)
def test_what_the_program_cannot_do_is_refused(
    cluster: Cluster, jobs: list[TrainingJob], says: str
) -> None:
    with pytest.raises(SynergyError) as refused:
        run_as_released(cluster, jobs, "fifo", "tune")
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(("hog_gb", "last_gb"), [(200, 62.5), (240, 20)])
def test_where_the_program_gives_up_is_said(hog_gb: float, last_gb: float) -> None:
    text = (
        "model,profiled_gpus,cpu_gpu_ratio,best_cpus_per_gpu,best_mem_gb_per_gpu,speedup_at_best,"
        f"iter_time_s\nhog,1,3,2,{hog_gb},1,1\nodd,1,3,20,20,2,1\nlast,1,3,3,{last_gb},1,1\n"
    )
    known = parse_models(text, {})
    jobs = [
        TrainingJob(number, known[name], 1, 0, 9)
        for number, name in enumerate(("hog", "hog", "odd", "last"))
    ]
    assert len(run_as_released(ONE_SERVER, jobs[:3], "fifo", "tune")) == 3
    with pytest.raises(SynergyError, match=r"job [23]: gpus: 1 with their share do not fit"):
        run_as_released(ONE_SERVER, jobs, "fifo", "tune")
