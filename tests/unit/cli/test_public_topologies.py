"""The study of public topologies: its tables are what the policies choose."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli.command_line import Command

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/studies/public-topologies.md").read_text()
FOLDER = "examples/public-topologies"
CASES = {
    "Pairs that are not neighbours": ("k8s-device-plugin-546.txt", "k8s-device-plugin-546.csv"),
    "One GPU is taken": ("dra-driver-214.txt", "dra-driver-214.csv"),
    "A single pair": ("k8s-device-plugin-436.txt", "k8s-device-plugin-436.csv"),
    "Single GPUs before pairs": ("k8s-device-plugin-1193.json", "k8s-device-plugin-1193.csv"),
}
POLICIES = ("baseline", "topo-aware", "greedy", "preserve")


def rows(title: str) -> Iterator[list[str]]:
    """Yield the cells of the table below a title."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    for line in re.findall(r"^\| (.*) \|$", section, re.MULTILINE):
        yield line.split(" | ")


def jobs(gputopo: Command, title: str, policy: str) -> list[dict[str, Any]]:
    topology, pods = (f"{FOLDER}/{name}" for name in CASES[title])
    line = f"simulate --topology {topology} --jobs {pods} --policy {policy} --time fixed -o json"
    found: list[dict[str, Any]] = gputopo(line).document["jobs"]
    return found


def cell(job: dict[str, Any]) -> str:
    gpus = ",".join(map(str, job["gpus"]))
    rate = job["effectiveBandwidthGBps"]
    return gpus if rate is None else f"{gpus}: {rate:g} GB/s"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("title", CASES)
def test_table_has_what_the_policy_chooses(
    gputopo: Command, monkeypatch: pytest.MonkeyPatch, title: str, policy: str
) -> None:
    monkeypatch.chdir(ROOT)
    chosen = jobs(gputopo, title, policy)
    table = {name: cells for name, *cells in rows(title)}
    assert list(table) == ["policy", *POLICIES]
    assert table["policy"] == [job["id"] for job in chosen]
    assert table[policy] == [cell(job) for job in chosen]


@pytest.mark.parametrize("title", CASES)
def test_preserve_gives_every_pod_of_two_gpus_a_pair_with_nvlinks(
    gputopo: Command, monkeypatch: pytest.MonkeyPatch, title: str
) -> None:
    monkeypatch.chdir(ROOT)
    graph = gputopo(f"topology export {FOLDER}/{CASES[title][0]} --format json").document
    index = {vertex["id"]: vertex.get("index") for vertex in graph["nodes"]}
    nvlinks = [
        {index[edge["source"]], index[edge["target"]]}
        for edge in graph["edges"]
        if edge["kind"] == "NVLink"
    ]
    pairs = [job["gpus"] for job in jobs(gputopo, title, "preserve") if len(job["gpus"]) == 2]
    assert pairs
    assert all(set(pair) in nvlinks for pair in pairs)
