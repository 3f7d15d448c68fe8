"""The wheel works in a clean environment, outside this clone, with the extras that users name."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from support.cli.command_line import process
from support.wheels import clean_environment

Install = Callable[[str], Path]

COMPONENTS_ONLY = ("grpc", "highspy", "kopf", "lightkube", "pynvml")
SHOWN = ("topology", "show", "dgx1-v100")
PLACED = ("place", "--topology", "dgx1-v100", "--gpus", "3", "--busy", "0,3")


@pytest.fixture(scope="module")
def command_line(install: Install) -> Path:
    return install("cli")


def run(program: Path, *arguments: str, folder: Path) -> str:
    """Return the output of a program of the environment."""
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("arguments", [("--help",), SHOWN, PLACED], ids=lambda words: words[0])
@pytest.mark.parametrize("program", ["gputopo", "kubectl-gputopo"])
def test_installed_command_prints_what_this_clone_prints(
    command_line: Path, tmp_path: Path, program: str, arguments: tuple[str, ...]
) -> None:
    out = run(command_line / program, *arguments, folder=tmp_path)
    assert out == process(*arguments, program=program).out
    assert len(out.splitlines()) > 3


def test_every_command_finds_its_packages(command_line: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plots"
    for line in (
        "topology list",
        "topology export summit",
        "topology export summit --format dot",
        "simulate --topology summit --generate 5",
        f"compare --topology summit --generate 5 --plots {folder}",
        "synergy simulate --generate 5 --servers 4",
        "sharing simulate --jobs 5 --seeds 1",
        "ensemble simulate --models 5 --nodes 2x4 --seeds 1",
        "bandwidth list",
    ):
        assert run(command_line / "gputopo", *line.split(), folder=tmp_path)
    assert list(folder.glob("*.svg"))


def test_installed_command_line_imports_nothing_of_this_clone(
    command_line: Path, tmp_path: Path
) -> None:
    script = "import gputopo, gputopo_cli; print(gputopo.__file__); print(gputopo_cli.__file__)"
    places = run(command_line / "python", "-c", script, folder=tmp_path).splitlines()
    assert all(Path(place).is_relative_to(command_line.parent / "lib") for place in places)


def test_command_line_brings_no_packages_of_components(command_line: Path, tmp_path: Path) -> None:
    script = "import importlib.util, sys; print([each for each in sys.argv[1:]"
    script += " if importlib.util.find_spec(each)])"
    found = run(
        command_line / "python", "-c", script, *COMPONENTS_ONLY, "networkx", folder=tmp_path
    )
    assert found == "['networkx']\n"


def test_library_with_the_extra_graph_gives_networkx_graphs(
    install: Install, tmp_path: Path
) -> None:
    script = (
        "from gputopo.topology.graph import to_networkx\n"
        "from gputopo import catalogue\n"
        "print(len(to_networkx(catalogue.named('dgx-h100'))))"
    )
    # 8 GPUs, 2 NUMA nodes, the interconnect and NVSwitch
    assert run(install("graph") / "python", "-c", script, folder=tmp_path) == "12\n"


def test_missing_extra_is_named_in_one_line(install: Install, tmp_path: Path) -> None:
    done = subprocess.run(
        [install("graph") / "gputopo", "--help"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    said = r"gputopo: typer is not installed: /\S+/python\S* -m pip install 'gputopo\[cli\]'\n"
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(said, done.stderr)


def test_wheel_has_the_licence_types_and_no_tests(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    tops = {name.split("/")[0] for name in names if not name.startswith("gputopo-")}
    assert tops
    assert all(top.startswith("gputopo") for top in tops)
    for top in tops:
        assert f"{top}/__init__.py" in names
    assert {name for name in names if name.endswith("py.typed")} >= {"gputopo/py.typed"}
