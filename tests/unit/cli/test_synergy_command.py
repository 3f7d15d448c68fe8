"""``gputopo synergy``: results and invalid input."""

import json
import sys
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree as ET

import pytest

from gputopo.sizing import orders
from gputopo_cli.synergy.command import Mechanism, Order
from gputopo_simulate.synergy import mechanisms
from support.cli.command_line import Command, process
from support.synergy import EXAMPLES, SHIPPED
from support.tuning.nodes import facts

DYNAMIC = EXAMPLES / "synergy-dynamic.csv"
STATIC = EXAMPLES / "synergy-static.csv"
FOUR = "--servers 4 --gpus 8 --cpus 24 --memory-gb 500"
TWO_JOBS = "job,model,gpus,arrival_s,iterations\n7,gnmt,8,0,30000\n3,alexnet,1,0,6000\n"


@pytest.fixture
def two_jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TWO_JOBS)
    return path


def test_words_of_the_options_are_those_of_the_simulator() -> None:
    assert set(get_args(Mechanism)) == set(mechanisms.MECHANISMS)
    assert set(get_args(Order)) == set(orders.ORDERS)


def test_json_has_the_guaranteed_keys(gputopo: Command, two_jobs: Path) -> None:
    run = gputopo(f"synergy simulate --jobs {two_jobs} {FOUR} --decide events -o json").document
    assert [each["id"] for each in run["jobs"]] == [3, 7]
    assert all({"id", "finishHours", "jctHours"} <= each.keys() for each in run["jobs"])
    assert run["makespanHours"] == pytest.approx(1)
    assert run["meanJctHours"] == pytest.approx((1 + 1 / 2.94) / 2)
    assert run["p99JctHours"] == pytest.approx(1 - 0.01 * (1 - 1 / 2.94))
    assert (run["order"], run["allocation"], run["asReleased"]) == ("fifo", "tune", False)
    assert run["scaled"] == ["gnmt with 8 GPUs"]


@pytest.mark.parametrize(
    ("jobs", "order", "allocation", "makespan", "mean", "p99"),
    [
        (STATIC, "fifo", "proportional", 15.25, 5.631, 12.92),
        (STATIC, "fifo", "tune", 11.00, 5.082, 10.58),
        (DYNAMIC, "srtf", "proportional", 19.50, 3.907, 14.16),
        (DYNAMIC, "srtf", "tune", 13.25, 3.189, 10.25),
        (DYNAMIC, "fifo", "tune", 14.83, 3.676, 9.56),
    ],
)
def test_as_released_statistics_are_those_of_the_authors_program(
    gputopo: Command,
    jobs: Path,
    order: str,
    allocation: str,
    makespan: float,
    mean: float,
    p99: float,
) -> None:
    line = f"synergy simulate --jobs {jobs} {FOUR} --order {order} --allocation {allocation}"
    run = gputopo(f"{line} --as-released -o json").document
    assert run["makespanHours"] == makespan
    assert round(run["meanJctHours"], 3) == mean
    assert run["p99JctHours"] == p99
    assert run["asReleased"] is True
    assert "log" not in run


def test_as_released_times_have_two_decimals(gputopo: Command) -> None:
    line = f"synergy simulate --jobs {DYNAMIC} {FOUR} --order srtf --as-released -o json"
    run = gputopo(line).document
    took = [each["jctHours"] for each in run["jobs"]]
    assert sum(took) / 100 == pytest.approx(run["meanJctHours"], rel=1e-12)
    assert run["p99JctHours"] == sorted(took)[98]
    keys = ("arrivalHours", "finishHours", "jctHours")
    assert all(each[key] == round(each[key], 2) for each in run["jobs"] for key in keys)


@pytest.mark.parametrize(
    ("allocation", "jobs", "mean", "p99"),
    [("proportional", 5000, 81.0884, 214.59), ("tune", 5250, 21.8766, 156.92)],
)
def test_figure_9_of_the_paper_is_reproduced_exactly(
    allocation: str, jobs: int, mean: float, p99: float
) -> None:
    """Jobs after the monitored ones take CPUs from them only with tune."""
    line = f"synergy simulate --generate {jobs} --jobs-per-hour 9 --seed 42 --split 20,70,10"
    line += f" --allocation {allocation} --as-released --monitor 4000:5000 -o json"
    run = process(*line.split()).document
    assert run["monitored"] == 1000
    assert run["meanJctHours"] == pytest.approx(mean, abs=5e-5)
    assert run["p99JctHours"] == p99


def test_generated_jobs_are_equal_for_equal_seeds_and_all_end(gputopo: Command) -> None:
    line = "synergy simulate --generate 50 --jobs-per-hour 9 --order fifo --allocation tune -o json"
    run = gputopo(line).document
    assert run["monitored"] == len(run["jobs"]) == 50
    assert gputopo(f"{line} --seed 42").document["jobs"] == run["jobs"]
    assert gputopo(f"{line} --seed 43").document["jobs"] != run["jobs"]


def test_statistics_are_of_the_monitored_jobs_without_the_last_id(gputopo: Command) -> None:
    line = f"synergy simulate --jobs {DYNAMIC} {FOUR} -o json"
    whole, part = gputopo(line).document, gputopo(f"{line} --monitor 10:20").document
    assert part["jobs"] == whole["jobs"]
    monitored = [each["jctHours"] for each in whole["jobs"] if 10 <= each["id"] < 20]
    assert part["monitored"] == len(monitored) == 10
    assert part["meanJctHours"] == pytest.approx(sum(monitored) / 10)
    ends = [each["finishHours"] for each in whole["jobs"] if 10 <= each["id"] < 20]
    assert part["makespanHours"] == max(ends)


def test_equal_command_lines_give_equal_output(gputopo: Command) -> None:
    line = f"synergy simulate {FOUR} --order las --allocation marginal -o json --jobs"
    once = gputopo(f"{line} {DYNAMIC}").out
    assert gputopo(f"{line} {DYNAMIC}").out == once
    assert gputopo(f"{line} -", stdin=DYNAMIC.read_bytes()).out == once


def test_table_has_each_job_and_the_scaled_models(gputopo: Command, two_jobs: Path) -> None:
    said = gputopo(f"synergy simulate --jobs {two_jobs} {FOUR} --decide events").out.splitlines()
    assert said[0].endswith("on 4 servers of 8 GPUs, 24 CPUs and 500 GB, fifo, tune")
    assert said[3].split() == ["3", "0", "0.34", "0.34"]
    assert said[-1] == "scaled from one GPU, not measured: gnmt with 8 GPUs"


def test_model_scaled_to_an_unmeasured_share_is_shown(gputopo: Command, tmp_path: Path) -> None:
    """AlexNet was measured with 2 GPUs, but not with less than 3 CPUs for each."""
    path = tmp_path / "jobs.csv"
    path.write_text("job,model,gpus,arrival_s,iterations\n1,alexnet,2,0,1000\n")
    line = f"synergy simulate --jobs {path} -o json --cpus"
    assert gputopo(f"{line} 24").document["scaled"] == []
    assert gputopo(f"{line} 16").document["scaled"] == ["alexnet with 2 GPUs"]


def test_scarce_storage_makes_jobs_slower(gputopo: Command) -> None:
    line = f"synergy simulate --jobs {DYNAMIC} {FOUR}"
    enough, scarce = (
        gputopo(f"{line} --storage-mb-per-s {rate} -o json").document["meanJctHours"]
        for rate in (100_000, 400)
    )
    assert enough == gputopo(f"{line} -o json").document["meanJctHours"] < scarce
    said = gputopo(f"{line} --storage-mb-per-s 400").out
    assert "on 4 servers of 8 GPUs, 24 CPUs, 500 GB and 400 MB/s, fifo, tune" in said


def test_models_of_a_file_replace_the_shipped_ones(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "models.csv"
    path.write_text((SHIPPED / "synergy_models.csv").read_text(encoding="utf-8"))
    line = f"synergy simulate --jobs {DYNAMIC} {FOUR} -o json"
    assert gputopo(f"{line} --models {path}").out == gputopo(line).out


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    path = tmp_path / "profiles.json"
    points = facts({50: 2, 400: 16, 800: 32}, gpus=2).to_json()
    path.write_text(json.dumps({"metadata": {"name": "images"}, "status": {"facts": points}}))
    return path


def test_measured_profiles_replace_the_models(
    gputopo: Command, tmp_path: Path, profiles: Path
) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("job,model,gpus,arrival_s,iterations\n1,images,2,300,57600\n")
    line = f"synergy simulate --jobs {jobs} --profiles {profiles} --servers 1 --gpus 2 --cpus 0.4"
    document = gputopo(f"{line} -o json").document
    assert [each["jctHours"] for each in document["jobs"]] == [pytest.approx(1)]
    assert document["scaled"] == []
    done = gputopo(f"{line} --as-released")
    assert (done.status, done.err) == (
        2,
        "gputopo: profiles: not available with --as-released\n",
    )


def test_opt_is_faster_than_proportional(gputopo: Command) -> None:
    line = f"synergy simulate --jobs {DYNAMIC} {FOUR} --order srtf -o json --allocation"
    best, fair = (gputopo(f"{line} {each}").document for each in ("opt", "proportional"))
    assert best["meanJctHours"] < 0.85 * fair["meanJctHours"]


def test_opt_without_its_solver_reports_the_missing_package(
    gputopo: Command, monkeypatch: pytest.MonkeyPatch, two_jobs: Path
) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    done = gputopo(f"synergy simulate --jobs {two_jobs} --allocation opt")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("gputopo: allocation: opt: ")
    assert done.err.count("\n") == 1


def test_comparison_has_runs_of_both_programs(gputopo: Command) -> None:
    line = f"synergy compare --jobs {DYNAMIC} {FOUR} --orders srtf,fifo --as-released"
    line += " --allocations proportional,tune,marginal"
    document = gputopo(f"{line} -o json").document
    names = [
        (each["order"], each["allocation"], each["asReleased"]) for each in document["results"]
    ]
    one_order = [
        ("proportional", False),
        ("proportional", True),
        ("tune", False),
        ("tune", True),
        ("marginal", False),
    ]
    assert names == [(order, *each) for order in ("srtf", "fifo") for each in one_order]
    rows = [row.rsplit(maxsplit=5) for row in gputopo(line).out.splitlines()[4:]]
    assert rows[3][1:] == ["13.25", "3.19", "1.88", "10.25", "1.23"]
    assert rows[3][0].split() == ["srtf", "tune,", "as", "released"]


def test_comparison_shows_scaled_models_unless_all_runs_are_as_released(
    gputopo: Command, two_jobs: Path
) -> None:
    said = gputopo(f"synergy compare --jobs {two_jobs} --orders fifo --allocations tune").out
    assert "not measured: gnmt with 8 GPUs" in said
    released = gputopo(f"synergy simulate --jobs {two_jobs} --as-released").out
    assert "not measured" not in released


def test_jobs_can_be_generated(gputopo: Command) -> None:
    line = "synergy simulate --generate 30 --jobs-per-hour 20 --split 50,0,50 -o json"
    one, same, other = (gputopo(f"{line} --seed {seed}").out for seed in (1, 1, 2))
    assert one == same != other
    assert len(json.loads(one)["jobs"]) == 30


def test_one_plot_is_written_for_each_order(gputopo: Command, tmp_path: Path) -> None:
    line = f"synergy compare --jobs {DYNAMIC} {FOUR} --orders srtf,las --as-released"
    gputopo(f"{line} --allocations proportional,tune --plots {tmp_path}/new")
    pictures = sorted((tmp_path / "new").iterdir())
    assert [each.name for each in pictures] == ["jct-las.svg", "jct-srtf.svg"]
    for picture in pictures:
        text = picture.read_text()
        assert ET.fromstring(text).tag.endswith("svg")  # noqa: S314 - our own
        assert "tune, as released" in text
    gputopo(f"{line} --allocations proportional,tune --plots {tmp_path}/again")
    assert (tmp_path / "again/jct-las.svg").read_bytes() == pictures[0].read_bytes()


def test_plots_that_cannot_be_written_are_reported(gputopo: Command, two_jobs: Path) -> None:
    done = gputopo(f"synergy compare --jobs {two_jobs} --orders fifo --plots {two_jobs}/there")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("gputopo: plots: ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("", "jobs: either --jobs FILE or --generate N is required"),
        ("--jobs {jobs} --generate 3", "jobs: either --jobs FILE or --generate N is required"),
        ("--jobs /nonexistent", "jobs: '/nonexistent' cannot be read: No such file or directory"),
        ("--jobs {jobs} --order lifo", "order: 'lifo' is not one of 'fifo', 'srtf', 'las', 'ftf'"),
        (
            "--jobs {jobs} --allocation tun",
            "allocation: 'tun' is not one of 'proportional', 'greedy'",
        ),
        ("--jobs {jobs} --servers 0", "servers: '0': Input should be greater than or equal to 1"),
        ("--jobs {jobs} --gpus x", "gpus: 'x': Input should be a valid integer"),
        ("--jobs {jobs} --cpus many", "cpus: 'many': Input should be a valid number"),
        ("--jobs {jobs} --memory-gb nan", "memory-gb: 'nan': Input should be "),
        ("--jobs {jobs} --seed 42", "seed: is for --generate only"),
        ("--jobs {jobs} --jobs-per-hour 9", "jobs-per-hour: is for --generate only"),
        ("--jobs {jobs} --split 20,70,10", "split: is for --generate only"),
        ("--jobs {jobs} --monitor 5", "monitor: '5' is not FIRST:LAST, for example 4000:5000"),
        ("--jobs {jobs} --monitor 5:x", "monitor: 'x' is not an integer"),
        ("--jobs {jobs} --monitor 8:9", "monitor: 8:9: no job has an ID in this range"),
        ("--jobs {jobs} --monitor 4:4", "monitor: 4:4: no job has an ID in this range"),
        ("--jobs {jobs} --models {jobs}", "models: line 1: no column profiled_gpus in"),
        ("--jobs {jobs} --profiles {jobs}", "profiles: invalid JSON: "),
        (
            "--jobs {jobs} --profiles {jobs} --models {jobs}",
            "profiles: cannot be combined with --models",
        ),
        ("--jobs {jobs} --gpus 2 --servers 3", "job 7: gpus: 8; the cluster has 6"),
        ("--jobs {jobs} --cpus 40 --as-released", "job 7: model: gnmt has no profile for 5 CPUs"),
        (
            "--jobs {jobs} --as-released --allocation opt",
            "allocation: opt is not available with --as-released, only proportional, greedy, tune",
        ),
        (
            "--jobs {jobs} --as-released --decide events",
            "decide: events is not available with --as-released, only rounds",
        ),
        (
            "--jobs {jobs} --as-released --storage-mb-per-s 500",
            "storage-mb-per-s: not available with --as-released",
        ),
        (
            "--jobs {jobs} --storage-mb-per-s 0",
            "storage-mb-per-s: '0': Input should be greater than or equal to 0.001",
        ),
        ("--generate 0", "generate: '0': Input should be greater than or equal to 1"),
        ("--generate 3 --split 50,50", "split: '50,50' is not three percentages with the sum 100"),
        (
            "--generate 3 --split 50,40,50",
            "split: '50,40,50' is not three percentages with the sum 100",
        ),
        (
            "--generate 3 --jobs-per-hour 0",
            "jobs-per-hour: '0': Input should be greater than or equal to 0.001",
        ),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(
    gputopo: Command, two_jobs: Path, options: str, says: str
) -> None:
    done = gputopo(f"synergy simulate {options.format(jobs=two_jobs)}")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"gputopo: {says}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--orders fifo,lifo", "orders: 'lifo' is not one of fifo, srtf, las, ftf"),
        ("--allocations tune,tune", "allocations: 'tune,tune' lists an item twice"),
    ],
)
def test_lists_of_a_comparison_are_checked(
    gputopo: Command, two_jobs: Path, options: str, says: str
) -> None:
    done = gputopo(f"synergy compare --jobs {two_jobs} {options}")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"gputopo: {says}")
