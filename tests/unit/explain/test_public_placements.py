"""The study of explained placements: its objects and its table are what the programs give."""

import json
import os
import re
from typing import Any

import pytest

from support.cli.command_line import Command, command_line
from support.explain.public import CASES, FOLDER, ROOT, placed_pods

PAGE = (ROOT / "docs/studies/explained-placements.md").read_text()
EXAMPLE = re.compile(r"```console\n\$ gputopo (?P<line>[^\n]*)\n(?P<said>.*?)```", re.DOTALL)
ROW = re.compile(r"^\| (?P<case>\S+) \| (?P<pod>\S+) \| (?P<cells>.*) \|$", re.MULTILINE)


@pytest.fixture
def gputopo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(ROOT)
    return command_line(capsys, monkeypatch)


@pytest.mark.parametrize("case", CASES)
def test_saved_pods_are_what_the_extender_writes(case: str) -> None:
    path = ROOT / FOLDER / f"{case}.pods.json"
    text = json.dumps({"kind": "List", "items": placed_pods(case)}, indent=1) + "\n"
    if os.environ.get("GPUTOPO_WRITE"):
        path.write_text(text)
    assert path.read_text() == text


def explained(gputopo: Command, case: str, pod: str) -> Any:
    files = f"-f {FOLDER}/{case}.pods.json --topology {FOLDER}/{case}.{CASES[case]}"
    done = gputopo(f"explain {pod} {files} -o json")
    assert done.status == 0
    return done.document


def row(case: str, pod: str, found: Any) -> str:
    chosen, others = found["choices"]["chosen"], found["choices"]["alternatives"]
    effective = chosen["effectiveBandwidthGBps"]
    cells = [
        ", ".join(map(str, chosen["gpus"])),
        "-" if effective is None else f"{effective:g}",
        f"{chosen['preservedBandwidthGBps']:g}",
        _cost(others[0]) if others else "no other set is free",
        found["replay"]["verdict"],
    ]
    return " | ".join(["", case, pod, *cells, ""]).strip()


def _cost(other: Any) -> str:
    gpus = ", ".join(map(str, other["gpus"]))
    lost = {
        "effective": other["effectiveDifferencePercent"],
        "preserved": other["preservedDifferencePercent"],
    }
    parts = [f"{percent:+.0f} % {name}" for name, percent in lost.items() if percent]
    return f"{gpus}: {', '.join(parts) or 'equally good'}"


@pytest.mark.parametrize("case", CASES)
def test_table_has_what_explain_states_for_each_pod(gputopo: Command, case: str) -> None:
    pods = [each["metadata"]["name"] for each in placed_pods(case)]
    rows = [row(case, pod, explained(gputopo, case, pod)) for pod in pods]
    assert [found[0] for found in ROW.finditer(PAGE) if found["case"] == case] == rows


def test_replay_gives_the_same_choice_for_every_pod(gputopo: Command) -> None:
    verdicts = [
        explained(gputopo, case, each["metadata"]["name"])["replay"]["verdict"]
        for case in CASES
        for each in placed_pods(case)
    ]
    assert verdicts == ["Same"] * 15


def test_examples_of_the_page_show_the_real_output(gputopo: Command) -> None:
    examples = [*EXAMPLE.finditer(PAGE)]
    assert len(examples) == 5
    for found in examples:
        assert gputopo(found["line"]).out == found["said"]
