"""``gputopo bandwidth``: the list of models, and the fit of a model."""

import csv
from pathlib import Path

import pytest

from gputopo.bandwidth.models import MODELS
from gputopo.runtime.messages import quoted
from support.cli.command_line import Command

SAMPLES = """\
double,single,pcie,bandwidth_gbps
2,0,0,39
0,2,0,21.6
0,0,2,10
2,1,0,57
1,2,0,44
0,2,1,18
1,1,1,24
2,2,0,50
"""


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.csv"
    path.write_text(SAMPLES)
    return path


def test_every_model_is_listed_with_its_domain(gputopo: Command) -> None:
    listed = gputopo("bandwidth list -o json").document
    assert [model["name"] for model in listed] == list(MODELS)
    assert all(model["what"] and model["domain"] for model in listed)
    assert all(name in gputopo("bandwidth list").out for name in MODELS)


def test_fit_shows_coefficients_and_cross_validated_errors(gputopo: Command, samples: Path) -> None:
    lines = gputopo(f"bandwidth fit {samples}").out.splitlines()
    assert lines[0] == "equation 2 fitted to 8 samples: 8 link mixes, rings of 2, 3, 4 GPUs"
    assert lines[1] == "x: NVLink 2 x2 (50 GB/s)"
    assert sum(line.startswith(("x ", "1/(xyz+1)")) for line in lines) == 2
    assert any(line.startswith("on link mixes not seen (8 folds)") for line in lines)
    assert any(line.startswith("warning: 8 samples of 8 link mixes determine 8") for line in lines)


def test_place_uses_a_fitted_model(gputopo: Command, samples: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    done = gputopo(f"bandwidth fit {samples} --output-file {model}")
    assert done.out.splitlines()[-1] == f"written to {model}; use it with --model {model}"
    result = gputopo(f"place --topology dgx1-v100 --gpus 3 --model {model} -o json").document
    assert result["model"] == "fitted"
    assert result["effectiveBandwidthGBps"] == pytest.approx(57.0)


def test_json_of_a_fit_is_the_fitted_model(gputopo: Command, samples: Path, tmp_path: Path) -> None:
    done = gputopo(f"bandwidth fit {samples} -o json --output-file {tmp_path}/m.json")
    assert done.out == (tmp_path / "m.json").read_text()
    assert done.document["crossValidated"]["rmseGBps"] > done.document["inSample"]["rmseGBps"]


def test_samples_may_name_gpus_of_a_topology(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["gpus", "bandwidth_gbps"], ["0-3", 39], ["0-1", 21]])
    done = gputopo(f"bandwidth fit {path} --topology dgx1-v100")
    assert "2 samples: 2 link mixes, rings of 2 GPUs" in done.out
    assert "z: none in the samples" in done.out
    assert gputopo(f"bandwidth fit {path}").err == (
        f"gputopo: samples: {quoted(str(path))}: line 1: gpus: requires the topology of the"
        " machine\n"
    )


def test_one_link_mix_cannot_be_validated(gputopo: Command, tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    path.write_text("double,single,pcie,bandwidth_gbps\n2,0,0,39\n2,0,0,40\n")
    out = gputopo(f"bandwidth fit {path}").out
    assert "on link mixes not seen" not in out
    assert "warning: the samples have only one link mix" in out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: columns are missing"),
        ("a,b\n", "line 1: columns are a,b; expected "),
        ("double,single,pcie,bandwidth_gbps\n2,0,0,fast\n", "line 2: bandwidth_gbps: 'fast'"),
    ],
)
def test_invalid_samples_are_rejected_with_their_line(
    gputopo: Command, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "samples.csv"
    path.write_text(content)
    done = gputopo(f"bandwidth fit {path}")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"gputopo: samples: {quoted(str(path))}: {message}")


@pytest.mark.parametrize("content", ["", "root:x:0:0", "{}", "[1]", '{"version": 1}'])
def test_file_without_a_model_is_rejected_with_its_name(
    gputopo: Command, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "model.json"
    path.write_text(content)
    done = gputopo(f"place --topology dgx1-v100 --gpus 3 --model {path}")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"gputopo: model: {quoted(str(path))}: ")
    assert ":x:0" not in done.err
    assert done.err.count("\n") == 1
