"""``gputopo simulate`` and ``gputopo compare``: results and invalid input."""

import csv
import io
import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from gputopo.runtime.messages import quoted
from gputopo_cli.shared.output import format_number
from support.builders.samples import sample
from support.cli.command_line import Command

MAPA = Path(__file__).parents[2] / "data/mapa"
JOBS = MAPA / "jobs_seed1.csv"
TWO_JOBS = "gpus,service,sensitive,workload\n8,10,true,vgg16\n2,5,false,\n"
MIXED = "gpus,service\n2,5\n6,5\n"


@pytest.fixture
def two_jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TWO_JOBS)
    return path


def test_json_has_the_guaranteed_keys(gputopo: Command, two_jobs: Path) -> None:
    line = f"simulate --topology dgx1-v100 --jobs {two_jobs} --policy greedy --time fixed -o json"
    run = gputopo(line).document
    assert (run["policy"], run["makespan"]) == ("greedy", 15.0)
    first, second = run["jobs"]
    assert {"id", "gpus", "start", "end", "effectiveBandwidthGBps", "sensitive"} <= first.keys()
    assert sorted(first["gpus"]) == list(range(8))
    assert (first["start"], first["end"], first["sensitive"]) == (0.0, 10.0, True)
    assert (second["start"], second["end"], second["sensitive"]) == (10.0, 15.0, False)


def test_job_lists_of_mapa_run_from_a_file_and_standard_input(gputopo: Command) -> None:
    line = "simulate --topology dgx1-v100 --policy preserve -o json --jobs"
    of_file = gputopo(f"{line} {JOBS}")
    assert len(of_file.document["jobs"]) == 300
    assert gputopo(f"{line} -", stdin=JOBS.read_bytes()).out == of_file.out


def test_as_released_gives_the_results_of_the_authors_program(gputopo: Command) -> None:
    with (MAPA / "released_results_seed1.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    policies = {"baseline": "baseline", "greedy": "greedy", "preserve": "preserve"}
    theirs = {
        row["policy"].lower(): float(row["makespan_cycles"])
        for row in rows
        if row["topology"].lower() in {"dgx-v", "dgx1-v100"} and row["group"] == rows[0]["group"]
    }
    found = policies.keys() & theirs.keys()
    assert found
    for policy in found:
        line = f"simulate --topology dgx-v --jobs {JOBS} --policy {policy} --as-released -o json"
        assert gputopo(line).document["makespan"] == theirs[policy]


def test_table_shows_each_job_and_the_whole_run(gputopo: Command, two_jobs: Path) -> None:
    lines = gputopo(
        f"simulate --topology dgx1-v100 --jobs {two_jobs} --time fixed"
    ).out.splitlines()
    assert lines[0] == (
        f"2 jobs of {two_jobs} on 1 x dgx1-v100, fixed times, first come, first served,"
        " policy preserve"
    )
    assert lines[3].split()[0] == "0"
    assert lines[-1] == "makespan 15, 0.133 jobs per unit of time"


def test_sensitive_job_runs_longer_on_slow_links(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("gpus,service,sensitive,workload\n2,10,true,vgg16\n")
    line = f"simulate --topology pcie-8gpu --jobs {path} -o json"
    assert gputopo(line).document["makespan"] > 10
    assert gputopo(f"{line} --time fixed").document["makespan"] == 10
    curves = tmp_path / "curves.json"
    curves.write_text('{"vgg16": {"communicationShare": 0}}')
    assert gputopo(f"{line} --time {curves}").document["makespan"] == 10
    assert (
        f"times by {curves}"
        in gputopo(f"simulate --topology pcie-8gpu --jobs {path} --time {curves}").out
    )


def test_several_nodes_have_names_and_share_the_jobs(gputopo: Command) -> None:
    line = "simulate --topology dgx1-v100 --generate 30 --time fixed -o json"
    one, many = gputopo(line).document, gputopo(f"{line} --nodes 11").document
    assert {job["node"] for job in one["jobs"]} == {"dgx1-v100"}
    assert {job["node"] for job in many["jobs"]} <= {f"dgx1-v100-{n:02}" for n in range(11)}
    assert many["makespan"] < one["makespan"]


def test_generated_jobs_are_the_same_for_a_seed(gputopo: Command) -> None:
    line = "simulate --topology dgx1-v100 --generate 20 -o json --seed"
    assert gputopo(f"{line} 7").out == gputopo(f"{line} 7").out != gputopo(f"{line} 8").out


def test_backfill_and_waiting_change_the_order(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("gpus,service\n6,10\n8,10\n2,5\n")
    line = f"simulate --topology dgx1-v100 --jobs {path} --time fixed -o json"
    starts = [job["start"] for job in gputopo(line).document["jobs"]]
    assert starts == [0, 10, 20]
    starts = [job["start"] for job in gputopo(f"{line} --backfill").document["jobs"]]
    assert starts == [0, 10, 0]
    lines = gputopo(f"simulate --topology dgx1-v100 --jobs {path} --backfill").out.splitlines()
    assert "jobs that fit may overtake" in lines[0]
    lines = gputopo("simulate --topology dgx1-v100 --generate 9 --wait").out.splitlines()
    assert "sensitive jobs wait if that saves GPU time" in lines[0]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_only(
    gputopo: Command, two_jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"simulate --topology dgx1-v100 --jobs {two_jobs}"
    quiet = gputopo(line)
    assert quiet.err == ""
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert gputopo(line).out == quiet.out
    assert "jobs" in terminal.getvalue()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "jobs: either --jobs FILE or --generate N is required"),
        ("--jobs {path} --generate 3", "jobs: either --jobs FILE or --generate N is required"),
        ("--generate 0", "generate: '0': Input should be greater than or equal to 1"),
        ("--generate 3 --seed x", "seed: 'x': Input should be a valid integer"),
        ("--generate 3 --nodes 0", "nodes: '0': Input should be greater than or equal to 1"),
        ("--generate 3 --time never", "time: 'never' cannot be read: No such file or directory"),
        ("--generate 3 --model eq9", "model: 'eq9' is not one of "),
        ("--jobs /nonexistent", "jobs: '/nonexistent' cannot be read: No such file or directory"),
        ("--jobs {path} --topology summit", "job 0: fits on no node: needs 8 GPUs, the node has 6"),
        ("--generate 3 --as-released --nodes 2", "nodes: not available with --as-released"),
        ("--generate 3 --as-released --model physical", "model: not available with --as-released"),
        ("--generate 3 --as-released --backfill", "backfill: not available with --as-released"),
        ("--generate 3 --as-released --wait", "wait: not available with --as-released"),
        ("--generate 3 --as-released --profiles x", "profiles: not available with --as-released"),
        ("--generate 3 --time fixed --profiles x", "time: fixed cannot be combined with --prof"),
        ("--generate 3 --as-released --time x", "time: not available with --as-released"),
        ("--generate 3 --as-released --topology dgx-a100", "topology: 'dgx-a100' is not one of"),
        ("--generate 3 --wait --nodes 2", "wait: not possible with 2 nodes; leave out"),
        ("--generate 3 --wait --backfill", "wait: not possible with --backfill; leave out one of"),
        ("--generate 3 --time {path}", "time: {shown}: line 1: Expecting value"),
        ("--jobs {path} --seed 77", "seed: is for --generate only"),
        ("--generate 3 -o svg", "output: 'svg' is not one of 'table', 'json'"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    gputopo: Command, two_jobs: Path, options: str, message: str
) -> None:
    line = f"simulate --topology dgx1-v100 {options.format(path=two_jobs)}"
    done = gputopo(line)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"gputopo: {message.format(shown=quoted(str(two_jobs)))}")
    assert done.err.count("\n") == 1


def test_comparison_shows_all_policies_and_the_papers_table(gputopo: Command) -> None:
    done = gputopo("compare --topology dgx1-v100 --generate 60 --seeds 1,2")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("60 jobs of seeds 1, 2 on 1 x dgx1-v100, times by bandwidth")
    assert sum(line.startswith("preserve ") for line in lines) == 4
    printed = [line.split()[-1] for line in lines if line.startswith("  paper, table 3")]
    assert printed == ["1.000", "1.070", "1.080", "1.120"]
    assert any("±" in line for line in lines)


def test_comparison_as_json_has_the_same_figures(gputopo: Command) -> None:
    document = gputopo("compare --topology dgx1-v100 --generate 60 -o json").document
    assert list(document["policies"]) == ["baseline", "topo-aware", "greedy", "preserve"]
    groups = document["policies"]["baseline"]
    assert list(groups) == ["all", "sensitive", "insensitive"]
    everything = groups["all"]
    assert everything["jobs"] == 60
    assert everything["executionTime"].keys() == {"minimum", "lower", "median", "upper", "maximum"}
    assert everything["speedUp"]["throughput"] == {"mean": 1.0, "halfWidth95": 0.0}
    assert document["paper"] == []


def test_speed_up_is_over_the_first_chosen_policy(gputopo: Command) -> None:
    out = gputopo("compare --topology dgx1-v100 --generate 20 --policies greedy,baseline").out
    assert "speed-up over greedy, all jobs" in out
    assert "paper" not in out
    assert "topo-aware" not in out


def test_judge_evaluates_all_results(gputopo: Command) -> None:
    line = "compare --topology dgx1-v100 --generate 20 -o json --policies baseline"
    own = gputopo(line).document
    judged = gputopo(f"{line} --judge physical").document
    assert own["policies"] != judged["policies"]


def test_claims_of_the_paper_are_checked_on_its_16_gpu_servers(gputopo: Command) -> None:
    line = "compare --topology torus-2d-16 --generate 40"
    claims = [text for text in gputopo(line).out.splitlines() if text.startswith("paper, Fig. 18a")]
    assert len(claims) == 2
    assert all(text.endswith(("so it is here", "not so here")) for text in claims)
    assert gputopo(f"{line} --policies baseline,preserve -o json").document["paper"] == []


def test_groups_without_jobs_have_no_statistics(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("gpus,service,sensitive\n2,5,true\n")
    line = f"compare --topology dgx1-v100 --jobs {path}"
    groups = gputopo(f"{line} -o json").document["policies"]["greedy"]
    assert groups["insensitive"]["effectiveBandwidthGBps"] is None
    assert groups["insensitive"]["speedUp"] == {}
    assert gputopo(line).out.count(" - ") > 0


def test_plots_are_pictures_of_both_distributions(gputopo: Command, tmp_path: Path) -> None:
    folder = tmp_path / "deep/er"
    done = gputopo(f"compare --topology dgx1-v100 --generate 30 --plots {folder}")
    assert done.status == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "effective-bandwidth.svg",
        "execution-time.svg",
    ]
    for path in folder.iterdir():
        words = "".join(ET.fromstring(path.read_text()).itertext())  # noqa: S314 - our own
        assert "topo-aware" in words
        assert "insensitive jobs of several GPUs" in words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--generate 3 --policies", "Option '--policies' requires an argument."),
        ("--generate 3 --policies greedy,greedy", "policies: 'greedy,greedy' lists an item twice"),
        ("--generate 3 --policies greedy,fast", "policy: 'fast' is not one of "),
        ("--generate 3 --seeds 1,1", "seeds: '1,1' lists an item twice"),
        (
            f"--generate 3 --seeds {','.join(map(str, range(1001)))}",
            "seeds: there are 1001, at most 1000 are allowed",
        ),
        ("--generate 3 --seeds 1,x", "seeds: 'x' is not an integer in 0..999999999"),
        ("--jobs {path} --seeds 1,2", "seeds: is for --generate only"),
        ("--jobs {path} --seeds 1", "seeds: is for --generate only"),
        ("--generate 3 --as-released --judge eq2", "judge: not available with --as-released"),
        ("--generate 3 --plots /dev/null/x", "plots: '/dev/null/x': Not a directory"),
    ],
)
def test_invalid_comparisons_are_rejected(
    gputopo: Command, two_jobs: Path, options: str, message: str
) -> None:
    done = gputopo(f"compare --topology dgx1-v100 {options.format(path=two_jobs)}")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"gputopo: {message}")
    assert done.err.count("\n") == 1


def test_small_numbers_keep_three_digits() -> None:
    assert [format_number(number) for number in (0.0, 2103.0, 0.00012345)] == [
        "0",
        "2103",
        "0.000123",
    ]


def test_help_of_both_commands_has_the_shared_options(gputopo: Command) -> None:
    for command in ("simulate", "compare"):
        out = gputopo(f"{command} --help").out
        assert all(option in out for option in ("--jobs", "--generate", "--as-released"))


def test_json_of_a_run_is_json(gputopo: Command) -> None:
    json.loads(gputopo("simulate --topology summit --generate 3 -o json").out)


def test_measured_profiles_decide_sensitivity_and_run_time(
    gputopo: Command, tmp_path: Path
) -> None:
    fact = {"gpus": 2, "percent": 2, "lowPercent": 1, "highPercent": 3, "samples": 8}
    facts = {"gpuModel": "V100", "links": [{**fact, "sensitivity": "Insensitive"}]}
    status = {"facts": facts, "samples": [sample(gpus=2).to_json()]}
    profiles = tmp_path / "profiles.json"
    profiles.write_text(json.dumps([{"metadata": {"name": "bert"}, "status": status}]))
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("gpus,service,workload\n2,100,bert\n2,100,gpt\n")
    line = "simulate --topology dgx1-v100 --policy weakest -o json"
    bert, gpt = gputopo(f"{line} --jobs {jobs} --profiles {profiles}").document["jobs"]
    assert (bert["sensitive"], gpt["sensitive"]) == (False, True)
    assert bert["end"] - bert["start"] == pytest.approx(102)
