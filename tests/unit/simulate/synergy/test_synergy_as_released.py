"""The authors' released program: its published figures, and the behaviour behind them."""

import csv
from collections.abc import Sequence

import pytest

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.percentiles import nearest
from gputopo_simulate.synergy.measured import parse_models
from gputopo_simulate.synergy.model import FinishedTrainingJob, SimulatedCluster, TrainingJob
from gputopo_simulate.synergy.released.program import run_as_released
from gputopo_simulate.synergy.report import job_hours, logged_hours, run_figures
from support.synergy import DATA, FOUR_SERVERS, SIXTEEN_SERVERS, job, models, trace

MECHANISM_NAMES = {"fair": "proportional", "tune": "tune"}
ONE_SERVER = SimulatedCluster(servers=1, gpus=8, cpus=24, memory_gb=500)


def released_rows() -> list[dict[str, str]]:
    with (DATA / "released_results.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [row for row in rows if row["scenario"] in {"static100", "dynamic100"}]


def finish_hours(
    cluster: SimulatedCluster, jobs: Sequence[TrainingJob], order: str, how: str
) -> list[float]:
    """Return the finish times in hours, by ID; rounds begin at 0 or at the first second."""
    finished = run_as_released(cluster, jobs, order, how)
    return [job.finish_seconds / 3600 for job in sorted(finished, key=lambda job: job.id)]


def test_all_rows_of_both_traces_are_tested() -> None:
    assert len(released_rows()) == 20


@pytest.mark.parametrize("row", released_rows(), ids=lambda row: " ".join(list(row.values())[:5]))
def test_every_figure_equals_the_printed_digits_of_the_authors_program(
    row: dict[str, str],
) -> None:
    jobs = trace(row["scenario"].removesuffix("100"))
    finished = run_as_released(
        FOUR_SERVERS, jobs, row["policy"].lower(), MECHANISM_NAMES[row["mechanism"]]
    )
    log = run_figures([*map(logged_hours, finished)], nearest)
    found = {"makespan_h": log.makespan, "mean_jct_h": log.mean_jct, "p99_jct_h": log.p99_jct}
    digits = len(row["value"].partition(".")[2])
    assert round(found[row["metric"]], digits) == float(row["value"])


def test_progress_counts_to_the_number_of_jobs() -> None:
    reported: list[tuple[int, int]] = []
    run_as_released(
        FOUR_SERVERS,
        trace("dynamic"),
        "fifo",
        "tune",
        lambda done, all_: reported.append((done, all_)),
    )
    assert reported[-1] == (100, 100)
    assert reported == sorted(reported)


def test_logged_figures_have_two_decimals_and_nearest_percentiles() -> None:
    finished = [FinishedTrainingJob(number, 0, 3600 * (number + 0.004)) for number in range(100)]
    exact = run_figures([*map(job_hours, finished)])
    assert exact.p99_jct == pytest.approx(98.014)
    assert exact.mean_jct == pytest.approx(49.504)
    log = run_figures([*map(logged_hours, finished)], nearest)
    assert (log.p99_jct, log.mean_jct, log.makespan) == (98, 49.5, 99)


def test_job_finishes_with_a_round_and_does_whole_steps_in_each() -> None:
    three_rounds = TrainingJob(0, models()["res50"], 1, 0, 2 * 384 + 1)  # 300 s / 0.78 s is 384.6
    assert finish_hours(ONE_SERVER, [three_rounds], "fifo", "proportional") == [
        (1 + 3 * 300) / 3600
    ]


def test_jobs_that_arrive_in_the_first_second_start_after_it() -> None:
    late = [job(0, hours=0.01), job(1, hours=0.01, arrival_seconds=301)]
    assert finish_hours(ONE_SERVER, late[:1], "fifo", "proportional") == [301 / 3600]
    assert finish_hours(ONE_SERVER, late, "fifo", "proportional") == [300 / 3600, 900 / 3600]


def test_next_round_begins_after_the_next_arrival_if_no_job_is_active() -> None:
    jobs = [job(0, hours=0.01, arrival_seconds=10), job(1, hours=0.01, arrival_seconds=100_000)]
    assert finish_hours(ONE_SERVER, jobs, "fifo", "tune") == [600 / 3600, 100_500 / 3600]


def test_job_has_its_speed_up_only_with_its_whole_demand() -> None:
    two, three = ([job(each, "alexnet", hours=2.94) for each in range(count)] for count in (2, 3))
    fast = 3900 / 3600 + 1 / 3600
    assert finish_hours(ONE_SERVER, two, "fifo", "tune") == pytest.approx([fast, fast], abs=0.1)
    third = finish_hours(ONE_SERVER, three, "fifo", "tune")
    assert third[1] == pytest.approx(fast, abs=0.1)
    assert [third[0], third[2]] == pytest.approx([1.7, 1.7], abs=0.2)


def test_greedy_lets_a_job_wait_if_its_cpus_are_used() -> None:
    three = [job(each, "alexnet", hours=2.94) for each in range(3)]
    assert finish_hours(ONE_SERVER, three, "fifo", "greedy") == pytest.approx([1, 1, 2], abs=0.1)


def test_jobs_whose_gpus_do_not_fit_are_passed_over() -> None:
    jobs = [job(0, "gnmt", 4), job(1, "gnmt", 8), job(2, "gnmt", 4)]
    ends = finish_hours(ONE_SERVER, jobs, "fifo", "proportional")
    assert ends == pytest.approx([1, 2, 1], abs=0.1)


def test_las_with_tune_places_large_jobs_first() -> None:
    jobs = [job(0, "res18", 1), *(job(each, "gnmt", 1) for each in range(1, 4)), job(4, "m5", 4)]
    assert len(finish_hours(ONE_SERVER, jobs, "las", "tune")) == 5


def test_jobs_are_reduced_to_their_share_until_the_last_job_fits() -> None:
    sensitive = [job(each, "alexnet", hours=2.94) for each in range(2)]
    insensitive = [job(each, "gnmt", hours=1) for each in range(2, 8)]
    ends = finish_hours(ONE_SERVER, [*sensitive, *insensitive], "fifo", "tune")
    assert ends[2:] == pytest.approx([1] * 6, abs=0.1)
    assert ends[0] == pytest.approx(1 + 0.65, abs=0.35)


def test_job_of_several_gpus_gets_the_first_server_with_enough_gpus() -> None:
    cluster = SimulatedCluster(servers=2, gpus=8, cpus=24, memory_gb=500)
    sensitive = [job(each, "alexnet", hours=2.94) for each in range(4)]
    ends = finish_hours(cluster, [*sensitive, job(4, "gnmt", 4, hours=3)], "fifo", "tune")
    assert ends[4] == pytest.approx(3, abs=0.1)
    assert ends[1:4] == pytest.approx([1] * 3, abs=0.1)
    assert ends[0] == pytest.approx(1 + 1.94 / 2.94, abs=0.1)


def test_job_is_split_over_servers_if_no_single_one_has_enough() -> None:
    cluster = SimulatedCluster(servers=2, gpus=8, cpus=24, memory_gb=500)
    jobs = [*(job(each, "alexnet", hours=5) for each in range(4)), job(4, "res50", 16, hours=1)]
    ends = finish_hours(cluster, jobs, "fifo", "proportional")
    assert ends[4] == pytest.approx(6, abs=0.2)
    first = [*(job(each, "gnmt", 4, hours=1) for each in range(2)), job(2, "m5", 8, hours=1)]
    assert finish_hours(cluster, first, "fifo", "tune")[2] == pytest.approx(1, abs=0.1)


def test_split_job_reduces_other_jobs_on_both_servers() -> None:
    cluster = SimulatedCluster(servers=2, gpus=4, cpus=12, memory_gb=250)
    jobs = [*(job(each, "shufflenet", 1, hours=9) for each in range(4)), job(4, "deepspeech", 4)]
    ends = finish_hours(cluster, jobs, "fifo", "tune")
    assert ends[4] == pytest.approx(1, abs=0.1)


def test_job_that_starved_for_a_thousand_hours_goes_first() -> None:
    one_gpu = SimulatedCluster(servers=1, gpus=1, cpus=3, memory_gb=62.5)
    stream = [
        job(each, "gnmt", hours=10, arrival_seconds=each * 9.9 * 3600) for each in range(1, 120)
    ]
    ends = finish_hours(one_gpu, [job(0, "gnmt", hours=100), *stream], "srtf", "proportional")
    assert ends[0] == pytest.approx(9.9 + 1000 + 90.1, abs=0.5)


@pytest.mark.parametrize("order", ["fifo", "srtf", "las", "ftf"])
def test_order_decides_which_job_finishes_first(order: str) -> None:
    jobs = [
        job(0, "gnmt", 8, hours=4),
        job(1, "gnmt", 8, hours=1, arrival_seconds=1000),
        job(2, "gnmt", 8, hours=2, arrival_seconds=2000),
    ]
    ends = finish_hours(ONE_SERVER, jobs, order, "proportional")
    assert (
        sorted(range(3), key=ends.__getitem__)
        == {
            "fifo": [0, 1, 2],
            "srtf": [1, 2, 0],
            "las": [1, 2, 0],
            "ftf": [0, 2, 1],
        }[order]
    )


def test_demand_above_a_server_is_limited_with_its_speed_up() -> None:
    share = finish_hours(ONE_SERVER, [job(0, "alexnet", 4, hours=3)], "fifo", "proportional")
    cut = finish_hours(ONE_SERVER, [job(0, "alexnet", 4, hours=3)], "fifo", "tune")
    speed_up = 1 + (2.94 - 1) / (48 - 12) * (24 - 12)
    assert share[0] / cut[0] == pytest.approx(speed_up, rel=0.1)
    assert finish_hours(SIXTEEN_SERVERS, [job(0, "alexnet", 16, hours=3)], "fifo", "tune") == share
    assert finish_hours(SIXTEEN_SERVERS, [job(0, "gnmt", 16, hours=3)], "fifo", "tune") == share


@pytest.mark.parametrize(
    ("cluster", "jobs", "message"),
    [
        (ONE_SERVER, [], "jobs: the list is empty"),
        (ONE_SERVER, [job(1), job(1)], "job 1: id: used by another job; IDs must be unique"),
        (ONE_SERVER, [job(1, gpus=16)], "job 1: gpus: 16; the cluster has 8"),
        (FOUR_SERVERS, [job(1, gpus=3)], "job 1: gpus: 3 is not one of 1, 2, 4, 8, 16"),
        (
            SimulatedCluster(1, 8, 40, 500),
            [job(7)],
            "job 7: model: res18 has no profile for 5 CPUs per GPU, only for 3, 4, 6",
        ),
        (
            SimulatedCluster(1, 8, 24, 50),
            [job(7, "deepspeech")],
            "job 7: model: deepspeech needs 62.5 GB per GPU, more than a server has",
        ),
    ],
)
def test_input_that_the_program_does_not_support_is_rejected(
    cluster: SimulatedCluster, jobs: list[TrainingJob], message: str
) -> None:
    with pytest.raises(SimulationError) as rejected:
        run_as_released(cluster, jobs, "fifo", "tune")
    assert str(rejected.value).startswith(message)


@pytest.mark.parametrize(("hog_gb", "last_gb"), [(200, 62.5), (240, 20)])
def test_run_ends_with_an_error_where_the_program_gives_up(hog_gb: float, last_gb: float) -> None:
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
    with pytest.raises(SimulationError, match=r"job [23]: gpus: 1; its share does not fit"):
        run_as_released(ONE_SERVER, jobs, "fifo", "tune")
