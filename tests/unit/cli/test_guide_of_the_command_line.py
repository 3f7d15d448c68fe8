"""The examples of ``docs/use/cli.md``, other pages and the README show the real output."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gputopo_cli.app import app
from support.cli.command_line import Command

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs/use/cli.md"
PAGES = [
    GUIDE,
    ROOT / "docs/use/explain.md",
    ROOT / "docs/index.md",
    ROOT / "docs/start/install.md",
    ROOT / "docs/studies/public-topologies.md",
]
EXAMPLE = re.compile(r"```console\n\$ gputopo ?(?P<line>[^\n]*)\n(?P<said>.*?)```", re.DOTALL)


def examples(page: Path) -> list[tuple[str, str]]:
    return [(found["line"], found["said"]) for found in EXAMPLE.finditer(page.read_text())]


@pytest.mark.parametrize(
    ("line", "said"),
    [example for page in PAGES for example in examples(page)],
    ids=lambda text: text[:60],
)
def test_guides_show_the_real_output_of_every_example(
    gputopo: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, said: str
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)
    done = gputopo(line)
    assert done.out + done.err == said


def options_of(group: Any, path: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield each command with its options."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from options_of(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", {word for each in command.params for word in each.opts}


def test_guide_names_the_commands_without_the_common_options() -> None:
    options = dict(options_of(get_command(app)))
    assert [name for name, own in options.items() if "-o" not in own] == ["web", "topology export"]
    [passage] = re.findall(r"(?s)redirect their output: (.*?)\.\n", GUIDE.read_text())
    named = set(re.findall(r"`([a-z -]+)`", passage))
    assert {name for name, own in options.items() if "--output-file" not in own} == named | {"web"}


def test_pictures_of_the_guide_exist_and_are_small() -> None:
    named = re.findall(r"\]\(\.\./(pictures/[^)]+)\)", GUIDE.read_text())
    assert named
    assert {path.name for path in (ROOT / "docs/pictures").iterdir()} >= {
        Path(name).name for name in named
    }
    assert all((ROOT / "docs" / name).stat().st_size < 150_000 for name in named)


def test_picture_of_a_placement_is_what_the_program_draws(gputopo: Command) -> None:
    drawn = gputopo("place --topology dgx1-v100 --gpus 3 --busy 0,3,6 -o svg").out
    assert drawn == (ROOT / "docs/pictures/place-dgx1-v100.svg").read_text()


def test_readme_states_the_bandwidths_that_the_program_prints(gputopo: Command) -> None:
    drawn = gputopo("place --topology dgx1-v100 --gpus 3 --busy 0,3,6 --runners-up 9").out
    found = dict(re.findall(r"(?m)^\S+ +(\d, \d, \d) +\d+ +(\S+)", drawn))
    readme = (ROOT / "README.md").read_text()
    assert f"gets 4, 5 and 7, with an effective bandwidth\nof {found['4, 5, 7']} GB/s" in readme
    assert f"1, 2 and 4, would have {found['1, 2, 4']} GB/s" in readme
