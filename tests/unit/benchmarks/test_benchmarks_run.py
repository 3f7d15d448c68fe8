"""Every benchmark runs to its end and prints its tables; the figures are not checked."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks") / "times.svg"


@pytest.fixture(scope="module")
def everything(picture: Path) -> str:
    """Return what a run of all benchmarks prints."""
    done = run("--quick", "--plot", str(picture))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    "words",
    [
        "dgx1-v100 RingTree",
        "20,935.60",
        "dgx1-v100 all patterns",
        "Extender in process",
        "Extender over HTTP",
        "nothing to decide",
        "events/s",
        "(models: ",
        "Mean gap by GPUs of the cluster",
        "alexnet           8  24           2.0%        0.4%  24, 12, 6, 9, 10, 11, 3, 1",
        "srtf            marginal",
        "dgx-2 Ring of 16",
        "Cuts of the physical graph",
        "SC '17's simulator: 50 jobs on 5 machines",
        "Sensitive to links or not; 1 fleets, seed 1",
        "Class when users report low rates",
        "Meshes of 4 to 8 GPUs, every pair has NVLinks: results by traffic of the job, percent",
        "mean at 10 steps/s, one of which sends",
        "8 containers, 1 message/s each",
        "gputopo --help",
    ],
)
def test_all_benchmarks_print_their_tables(everything: str, words: str) -> None:
    assert words in everything


def test_decision_times_are_drawn_to_the_given_file(everything: str, picture: Path) -> None:
    assert everything
    text = picture.read_text()
    assert text.startswith("<?xml")
    assert text.count('id="line2d_') > 4


def test_unknown_benchmark_is_rejected_with_the_known_names() -> None:
    done = run("nonsense")
    assert done.returncode == 2
    assert "'nonsense' is not one of decisions, memory, extender" in done.stderr
