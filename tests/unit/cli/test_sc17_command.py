"""``gputopo sc17``: results and invalid input."""

from pathlib import Path
from typing import get_args

import pytest

from gputopo_cli.sc17.command import Policy
from gputopo_cli.sc17.options import AuthorsList
from gputopo_simulate.sc17 import joblists, policies
from support.cli.command_line import Command, process

JOBS = (
    "id,arrival_s,net,batch,gpus,min_utility\n4,0,bvlc_alexnet,1,2,0.5\n2,9,bvlc_alexnet,4,1,0.3\n"
)


@pytest.fixture
def two_jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS)
    return path


def test_words_of_the_options_are_those_of_the_simulator() -> None:
    assert get_args(Policy) == policies.POLICIES
    assert get_args(AuthorsList) == tuple(joblists.LISTS)


def test_json_has_the_guaranteed_keys(gputopo: Command, two_jobs: Path) -> None:
    run = gputopo(f"sc17 simulate --jobs {two_jobs} --policy topo-aware -o json").document
    assert (run["policy"], run["asReleased"], run["slowJobs"]) == ("topo-aware", False, 0)
    assert run["runs"] == f"2 jobs of {two_jobs} on 1 machine power8-minsky"
    assert [each["id"] for each in run["jobs"]] == [4, 2]
    assert run["jobs"][1]["startSeconds"] == 9
    assert run["makespanSeconds"] == pytest.approx(127.415)
    assert run["meanWaitSeconds"] == run["maxWaitSeconds"] == 0
    assert run["meanSlowdown"] == pytest.approx(0)
    assert run["meanSlowdownWithWait"] == pytest.approx(0)
    assert run["decisions"] is None


def test_decision_times_are_measured_on_request(gputopo: Command) -> None:
    line = "sc17 simulate --list six --policy topo-aware --decision-times"
    decisions = gputopo(f"{line} -o json").document["decisions"]
    assert decisions["count"] == 6
    assert 0 < decisions["p50Ms"] <= decisions["p99Ms"]
    assert "DECISION p50 ms" in gputopo(line).out
    assert "DECISION" not in gputopo("sc17 simulate --list six").out


def test_table_has_a_row_per_job_and_the_statistics(gputopo: Command) -> None:
    out = gputopo("sc17 simulate --list six --policy topo-aware-p --as-released").out
    assert out.startswith(
        "6 jobs of the list six on 1 machine power8-minsky, topo-aware-p, as released\n"
    )
    lines = [line.split() for line in out.splitlines()]
    assert ["5", "0", "0,", "1", "29.9", "268.4", "396.0", "0.1", "1.000", "0.528"] in lines
    assert lines[-1] == ["396.0", "0", "0.4", "75.7", "238.5"]


def test_slowdown_below_zero_by_rounding_is_shown_as_zero(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_text(JOBS.replace("4,0,", "4,900000000000000,"))
    for line in ("simulate", "compare"):
        out = gputopo(f"sc17 {line} --jobs {path}").out
        assert "-0.0" not in out
        assert " 0.0 " in out


def test_comparison_has_a_row_per_policy_and_the_released_program(gputopo: Command) -> None:
    line = "sc17 compare --list hundred --machines 5 --policies fcfs,preserve --as-released"
    lines = gputopo(line).out.splitlines()
    assert lines[0] == "100 jobs of the list hundred on 5 machines power8-minsky"
    assert [row.split("  ")[0] for row in lines[4:]] == ["fcfs", "preserve", "fcfs, as released"]
    assert lines[-1].split()[3:] == ["1666.5", "8", "3.4", "208.6", "534.0"]
    results = gputopo(f"{line} -o json").document["results"]
    assert [(each["policy"], each["asReleased"]) for each in results] == [
        ("fcfs", False),
        ("preserve", False),
        ("fcfs", True),
    ]


def test_gate_can_be_lifted(gputopo: Command) -> None:
    line = "sc17 simulate --list hundred --machines 5 --policy topo-aware-p --as-released -o json"
    assert gputopo(line).document["makespanSeconds"] == pytest.approx(1540.0)
    assert gputopo(f"{line} --no-gate").document["makespanSeconds"] == pytest.approx(1355.2)


def test_generated_jobs_depend_on_the_seed_and_the_rate(gputopo: Command) -> None:
    line = "sc17 simulate --generate 20 --machines 3 -o json"
    first = gputopo(line).document
    assert first["runs"] == "20 jobs of seed 1, 10 a minute, on 3 machines power8-minsky"
    assert gputopo(line).document == first
    assert gputopo(f"{line} --seed 2").document["jobs"] != first["jobs"]
    fast = gputopo(f"{line} --jobs-per-minute 20").document
    arrivals = [[each["arrivalSeconds"] for each in run["jobs"]] for run in (first, fast)]
    assert [2 * seconds for seconds in arrivals[1]] == pytest.approx(arrivals[0])


def test_weights_minimum_and_longest_wait_reach_the_simulator(gputopo: Command) -> None:
    line = "sc17 simulate --list hundred --machines 5 --policy topo-aware-p -o json"
    given = gputopo(line).document
    strict = gputopo(f"{line} --min-utility 0.6").document
    at_once = gputopo(f"{line} --min-utility 0.6 --max-wait 0").document
    aware = gputopo(line.replace("topo-aware-p", "topo-aware")).document
    assert strict["slowJobs"] == 0 < given["slowJobs"]
    assert at_once["jobs"] == aware["jobs"]
    links = gputopo(f"{line} --weights 100,0,0").document
    assert links["jobs"] != given["jobs"]


def test_topology_of_the_machines_can_be_chosen(gputopo: Command) -> None:
    run = gputopo("sc17 simulate --list hundred --topology dgx1-v100 -o json").document
    assert max(max(each["gpus"]) for each in run["jobs"]) == 7


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("simulate", "jobs: one of --jobs FILE, --list NAME and --generate N is required"),
        ("simulate --list six --generate 3", "jobs: one of --jobs FILE, --list NAME"),
        ("simulate --list six --weights 50,50", "weights: '50,50' is not three percentages"),
        ("simulate --list six --weights 50,40,20", "weights: '50,40,20' is not three percentages"),
        ("simulate --list six --weights 0,0,100", "weights.fragmentation: 1 leaves no weight"),
        ("simulate --list six --weights x,0,0", "weights: 'x' is not an integer"),
        ("simulate --list six --topology nowhere", "topology: 'nowhere'"),
        ("simulate --list hundred --no-gate", "gate: --gate and --no-gate need --as-released"),
        ("compare --list six --gate", "gate: --gate and --no-gate need --as-released"),
        ("simulate --list six --seed 2", "seed: is for --generate only"),
        ("simulate --jobs /nowhere.csv --seed 2", "seed: is for --generate only"),
        ("simulate --list six --jobs-per-minute 9", "jobs-per-minute: is for --generate only"),
        ("simulate --jobs /nowhere.csv", "jobs: '/nowhere.csv' cannot be read"),
        ("simulate --list six --policy greedy --as-released", "policy: 'greedy'; --as-released"),
        ("simulate --list six --as-released --min-utility 1", "min-utility: not available with"),
        ("simulate --list six --as-released --max-wait 1", "max-wait: not available with"),
        ("simulate --list six --as-released --weights 1,1,98", "weights: not available with"),
        ("simulate --list six --as-released --decision-times", "decision-times: not available"),
        ("simulate --list six --as-released --topology dgx-2", "topology: not available with"),
        ("compare --list six --policies fcfs,fcfs", "policies: 'fcfs,fcfs' lists an item twice"),
        ("compare --list six --policies fcsf", "policies: 'fcsf' is not one of fcfs"),
    ],
)
def test_invalid_input_is_rejected_with_field_and_value(
    gputopo: Command, line: str, message: str
) -> None:
    done = gputopo(f"sc17 {line}")
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith(f"gputopo: {message}")
    assert len(done.err.splitlines()) == 1


def test_group_prints_its_help_without_a_command(gputopo: Command) -> None:
    done = gputopo("sc17")
    assert done.status == 2
    assert "Simulate jobs that slow each other down" in done.out


def test_result_is_written_to_a_file(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    assert gputopo(f"sc17 compare --list six --output-file {path}").out == ""
    assert path.read_text().startswith("6 jobs of the list six")


def test_installed_program_has_the_measured_times() -> None:
    done = process("sc17", "simulate", "--list", "table1", "--policy", "topo-aware-p")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[-1].split() == ["395.0", "0", "0.5", "87.1", "237.7"]
