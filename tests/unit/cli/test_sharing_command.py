"""``gputopo sharing``: results and invalid input."""

from contextlib import nullcontext
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree as ET

import pytest

from gputopo_cli.sharing import evaluation
from gputopo_cli.sharing.command import Policy
from gputopo_simulate.sharing import policies
from support.cli.command_line import Command, process
from support.sharing import HEADER

SMALL = "simulate --jobs 12 --gpus 2 --seeds 2"


@pytest.fixture
def four_models(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text(
        f"{HEADER}A,A,10,10,10,10\nA,B (batch size 2),10,4,8,1\nC,C,2,2,1,1\nC,D,2,2,1,1\n"
    )
    return path


def test_words_of_the_options_are_those_of_the_simulator() -> None:
    assert get_args(Policy) == policies.POLICIES


def test_prediction_shows_the_measured_speeds_beside_the_predicted_ones(gputopo: Command) -> None:
    lines = gputopo("sharing predict ResNet-18/64 resnet-18/256").out.splitlines()
    assert lines[0].startswith("Share: predicted summed speed 1.5")
    assert lines[3].split()[0] == "ResNet-18/64"
    assert lines[3].split()[-2:] == ["0.681", "Similar"]


def test_known_set_is_predicted_as_measured(gputopo: Command) -> None:
    found = gputopo("sharing predict A3C LM/5 --without none -o json").document
    assert [job["value"] for job in found["jobs"]] == pytest.approx(found["measured"])
    assert {job["source"] for job in found["jobs"]} == {"Measured"}
    assert found["gain"]["summedSpeed"] == pytest.approx(sum(found["measured"]))


@pytest.mark.parametrize("without", ["models", "families"])
def test_new_family_is_unknown(gputopo: Command, without: str) -> None:
    found = gputopo(f"sharing predict A3C LM/5 --without {without} -o json").document
    assert (found["choice"], found["reason"]) == ("DoNotShare", "UnknownSpeed")
    assert found["gain"] is None


def test_three_models_have_no_measured_speeds(gputopo: Command) -> None:
    line = "sharing predict ResNet-18/16 ResNet-18/64 ResNet-18/32"
    assert gputopo(f"{line} -o json").document["measured"] == []
    rows = [row.split() for row in gputopo(line).out.splitlines()[3:]]
    assert [row[-2:] for row in rows] == [["-", "Pairs"]] * 3


def test_limit_and_margin_reach_the_decision(gputopo: Command) -> None:
    line = "sharing predict ResNet-18/64 ResNet-18/256 -o json"
    assert gputopo(line).document["reason"] == "Gain"
    assert gputopo(f"{line} --max-slowdown 10").document["reason"] == "TooSlow"
    assert gputopo(f"{line} --margin 1.9").document["reason"] == "NoGain"


def test_pairs_can_be_those_of_a_file(gputopo: Command, four_models: Path) -> None:
    line = f"sharing predict a b/2 --without none --pairs {four_models} -o json"
    found = gputopo(line).document
    assert found["measured"] == [0.8, 0.25]
    stdin = four_models.read_bytes()
    line = "sharing predict A A --without none --pairs - -o json"
    assert gputopo(line, stdin=stdin).document["gain"]["delta"] == 2


def test_evaluation_has_rules_and_predictors(gputopo: Command) -> None:
    lines = gputopo("sharing evaluate").out.splitlines()
    assert lines[0] == "330 pairs of 26 models, margin 1.05"
    assert lines[3].split()[-2:] == ["0.0", "0.382"]
    assert [line.split()[:2] for line in lines[-4:]] == [
        ["model", "mean"],
        ["model", "gputopo"],
        ["family", "mean"],
        ["family", "gputopo"],
    ]


def test_evaluation_with_measured_pairs_in_json(gputopo: Command, four_models: Path) -> None:
    line = f"sharing evaluate --kept 0,1 --pairs {four_models} -o json"
    found = gputopo(line).document
    assert [each["predictor"] for each in found["predictors"][:3]] == [
        "mean",
        "gputopo",
        "gputopo, 1 measured",
    ]
    assert {each["rule"] for each in found["rules"]} >= {"never share", "always share"}
    assert found["predictors"][1].keys() >= {"leftOut", "speedError", "deltaError", "regret"}


def test_evaluation_shows_its_progress(
    gputopo: Command, four_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(
        evaluation, "progress_bar", lambda: nullcontext(lambda *done: seen.append(done))
    )
    gputopo(f"sharing evaluate --kept 0,1 --pairs {four_models}")
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_comparison_has_a_row_per_policy(gputopo: Command) -> None:
    lines = gputopo(f"sharing {SMALL} --load 2").out.splitlines()
    assert lines[0] == "12 jobs of 26 models on 2 GPUs, load 2, 2 lists"
    assert [line.split()[0] for line in lines[4:]] == list(policies.POLICIES)
    assert lines[4].split()[2:5] == ["+0.0", "±", "0.0"]


def test_comparison_in_json_is_equal_for_equal_seeds(gputopo: Command) -> None:
    line = f"sharing {SMALL} --policies never,speed -o json"
    first = gputopo(line).document
    assert gputopo(line).document == first
    assert [len(each["lists"]) for each in first["results"]] == [2, 2]
    assert first["results"][0]["makespanChange"] == {"mean": 0.0, "halfWidth": 0.0}


def test_one_list_has_no_interval(gputopo: Command) -> None:
    line = "sharing simulate --jobs 4 --gpus 1 --seeds 1 --load 0 --models A3C"
    out = gputopo(f"{line} --policies never,always").out
    assert out.startswith("4 jobs of 1 model on 1 GPU, all at once, 1 list\n")
    assert "±" not in out.splitlines()[-1]


def test_policies_without_decisions_show_no_wrong_ones(gputopo: Command) -> None:
    out = gputopo("sharing simulate --jobs 3 --gpus 9 --seeds 1 --policies speed").out
    assert out.splitlines()[-1].split()[-3:] == ["0.0", "-", "0.0"]


def test_small_batches_on_two_gpus_end_earlier_with_sharing(gputopo: Command) -> None:
    """The thesis' headline: all jobs at once, 1000 steps each."""
    line = (
        "sharing simulate --jobs 12 --gpus 2 --load 0 --steps 1000 --known 100 --seeds 3"
        " --models ResNet-18/16,ResNet-18/32,ResNet-18/64 --policies never,speed -o json"
    )
    assert gputopo(line).document["results"][1]["makespanChange"]["mean"] < -0.4


def test_plot_is_written(gputopo: Command, tmp_path: Path) -> None:
    gputopo(f"sharing {SMALL} --policies never,speed --plots {tmp_path / 'new'}")
    picture = tmp_path / "new" / "slowdown.svg"
    assert ET.parse(picture).getroot().tag.endswith("svg")  # noqa: S314 - our own file
    assert "speed" in picture.read_text()


def test_result_is_written_to_a_file(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    assert gputopo(f"sharing {SMALL} --output-file {path}").out == ""
    assert path.read_text().startswith("12 jobs of 26 models")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("predict A3C", "models: 1; must be 2 to 8"),
        ("predict A3C resnet-18/63", "models: 'resnet-18/63' was not measured; did you mean"),
        ("predict A3C LM/5 --pairs /nowhere", "pairs: '/nowhere' cannot be read"),
        ("evaluate --kept x", "kept: 'x' is not an integer in 0..20"),
        ("evaluate --kept 1,1", "kept: '1,1' lists an item twice"),
        ("simulate --policies nver", "policies: 'nver' is not one of never"),
        ("simulate --models LM/5,LM/6", "models: 'LM/6' was not measured"),
        ("simulate --gpus 0", "gpus: '0': Input should be greater"),
    ],
)
def test_invalid_input_is_rejected_with_field_and_value(
    gputopo: Command, line: str, message: str
) -> None:
    done = gputopo(f"sharing {line}")
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith(f"gputopo: {message}")
    assert len(done.err.splitlines()) == 1


def test_group_prints_its_help_without_a_command(gputopo: Command) -> None:
    done = gputopo("sharing")
    assert done.status == 2
    assert "jobs that share one GPU" in done.out


def test_installed_program_has_the_measured_pairs() -> None:
    done = process("sharing", "predict", "LM/5", "LM/10", "--without", "none")
    assert (done.status, done.err) == (0, "")
