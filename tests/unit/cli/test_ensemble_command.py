"""``gputopo ensemble``: plans, simulations and invalid input."""

import json
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from gputopo.ensemble.model import NodeGpuCount
from gputopo.ensemble.timeline import MemberRun
from gputopo_cli.ensemble import options, simulated
from gputopo_cli.ensemble.nodes import parse_nodes
from gputopo_cli.ensemble.plots import GpuBar, bars
from gputopo_simulate.ensemble.policies import EnsemblePolicy
from support.cli.command_line import Command
from support.ensembles import on

SMALL = "simulate --models 6 --nodes 2x4 --seeds 2 --epochs 1"
SPEC = {
    "itemsPerEpoch": 1000,
    "preprocessing": {"throughput": {1: 60, 2: 118}},
    "members": [
        {"name": "a", "epochs": 36, "rates": {1: 100, 2: 190, 3: 270}, "template": {"any": 1}},
        {"name": "b", "epochs": 36, "rates": {1: 50, 2: 98, 3: 140}},
    ],
}


def write(path: Path, **spec: object) -> Path:
    path.write_text(yaml.safe_dump({"kind": "GPUEnsemble", "spec": {**SPEC, **spec}}))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "ensemble.yaml")


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    scaling = [
        {"gpus": gpus, "microStepsPerSecond": steps, "ciPermille": 20, "extrapolated": False}
        for gpus, steps in ((1, 10_000_000), (2, 9_000_000))
    ]
    items = [
        {"metadata": {"name": name}, "spec": {}, "status": {"facts": facts}}
        for name, facts in (("resnet", {"gpuModel": "H100", "scaling": scaling}), ("new", None))
    ]
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps({"items": items}))
    return path


def members_of(document: dict[str, object]) -> dict[str, dict[str, object]]:
    flotillas = document["flotillas"]
    assert isinstance(flotillas, list)
    return {each["name"]: each for flotilla in flotillas for each in flotilla["members"]}


def test_words_of_the_options_are_those_of_the_simulator() -> None:
    assert options.POLICIES.split(",") == [policy.value for policy in EnsemblePolicy]


def test_plan_as_a_table(gputopo: Command, file: Path) -> None:
    lines = gputopo(f"ensemble plan {file} --nodes 1x3").out.splitlines()
    assert lines[0] == "2 members on 3 GPUs of 1 node, ends after 0.10 h"
    assert [line.split() for line in lines[3:5]] == [
        ["1", "a", "1", "node-1:", "1", "100", "0.00", "0.10"],
        ["1", "b", "2", "node-1:", "2", "98", "0.00", "0.10"],
    ]
    assert lines[7].split() == ["1", "2", "3", "0", "2", "2", "cores"]


def test_plan_of_a_gpuensemble_whose_rates_are_lists(gputopo: Command, tmp_path: Path) -> None:
    def listed(rates: dict[int, int], key: str) -> list[dict[str, object]]:
        return [{key: number, "itemsPerSecond": str(rate)} for number, rate in rates.items()]

    file = write(
        tmp_path / "listed.yaml",
        members=[
            {"name": "a", "epochs": 36, "rates": listed({1: 100, 2: 190, 3: 270}, "gpus")},
            {"name": "b", "epochs": 36, "rates": listed({1: 50, 2: 98, 3: 140}, "gpus")},
        ],
        preprocessing={"throughput": listed({1: 60, 2: 118}, "cores")},
    )
    line = "ensemble plan {} --nodes 1x3"
    plan = gputopo(line.format(file)).out
    assert plan == gputopo(line.format(write(tmp_path / "ensemble.yaml"))).out


def test_plan_as_json(gputopo: Command, file: Path) -> None:
    found = gputopo(f"ensemble plan {file} --nodes 1x3 -o json").document
    assert found["seconds"] == pytest.approx(36000 / 98)
    assert found["unplanned"] == []
    flotilla = found["flotillas"][0]
    assert (flotilla["reference"], flotilla["idleGPUs"], flotilla["preprocessorCores"]) == (
        100,
        0,
        2,
    )
    assert members_of(found)["b"] == {
        "name": "b",
        "gpus": 2,
        "itemsPerSecond": 98,
        "reason": "",
        "nodes": {"node-1": 2},
        "startSeconds": 0,
        "endSeconds": pytest.approx(36000 / 98),
    }


def test_demand_of_preprocessing_that_is_not_met_is_stated(gputopo: Command, file: Path) -> None:
    assert "2 cores deliver 118 of 190 items" in gputopo(f"ensemble plan {file} --nodes 2x3").out


def test_limits_of_file_and_options_reach_the_plan(gputopo: Command, tmp_path: Path) -> None:
    def gpus(line: str, **spec: object) -> list[object]:
        path = write(tmp_path / "ensemble.yaml", **spec)
        found = gputopo(f"ensemble plan {path} {line} -o json").document
        return [each["gpus"] for each in members_of(found).values()]

    assert gpus("--nodes 2x2") == [1, 2]  # with a second GPU, `a` would wait for `b`
    assert gpus("--nodes 2x2", preprocessing=None) == [2, 2]
    assert gpus("--nodes 2x2", maxGPUsPerMember=1) == [1, 1]
    assert gpus("--nodes 2x2", maxGPUs=3) == [1, 2]
    assert gpus("--nodes 2x2 --several-nodes", maxGPUs=4) == [1, 3]
    long = [{**SPEC["members"][0], "epochs": 108}, SPEC["members"][0] | {"name": "c"}]  # type: ignore[index]
    assert gpus("--nodes 1x4", members=long, pace="End") == [1, 3]
    assert gpus("--nodes 1x4", members=long) == [2, 2]


def test_only_the_reference_of_the_paper(gputopo: Command, tmp_path: Path) -> None:
    slow = [{"name": f"b{n}", "epochs": 18, "rates": {1: 50, 2: 72, 3: 85}} for n in range(3)]
    path = write(tmp_path / "many.yaml", members=[SPEC["members"][0], *slow])  # type: ignore[index]
    line = f"ensemble plan {path} --nodes 1x4 -o json"
    assert len(gputopo(line).document["flotillas"]) == 1
    assert len(gputopo(f"{line} --paper").document["flotillas"]) == 2
    assert len(gputopo(f"{line} --paper --spread 60").document["flotillas"]) == 2


def test_members_of_profiles_count_their_items(
    gputopo: Command, tmp_path: Path, profiles: Path
) -> None:
    members = [
        {"name": "a", "profile": "resnet", "batchSize": 32, "steps": 100},
        {"name": "b", "profile": "new", "batchSize": 32, "epochs": 1},
        {"name": "c"},
    ]
    path = write(tmp_path / "profiled.yaml", members=members)
    line = f"ensemble plan {path} --nodes 1x4 --profiles {profiles}"
    found = gputopo(f"{line} -o json").document
    assert members_of(found)["a"]["itemsPerSecond"] == 576
    assert found["seconds"] is None
    assert members_of(found)["b"]["endSeconds"] is None
    assert "end unknown" in gputopo(line).out


def test_members_without_rates_can_be_profiled_first(gputopo: Command, tmp_path: Path) -> None:
    members = [{"name": "a"}, SPEC["members"][1]]  # type: ignore[index]
    path = write(tmp_path / "unknown.yaml", members=members, unknownRates="Profile")
    line = f"ensemble plan {path} --nodes 1x4"
    found = gputopo(f"{line} -o json").document
    assert found["unplanned"] == [
        {"name": "a", "reason": "no rates are known: profile it first", "needsProfile": True}
    ]
    assert "no rates are known: profile it first" in gputopo(line).out


def test_start_that_is_unknown_is_a_dash(gputopo: Command, tmp_path: Path) -> None:
    members = [{"name": "a", "rates": {1: 100}}, {"name": "b", "rates": {1: 90}}]
    path = write(tmp_path / "endless.yaml", members=members)
    line = f"ensemble plan {path} --nodes 1x1"
    rows = [line.split() for line in gputopo(line).out.splitlines()[3:5]]
    assert rows[0][-3:] == ["100", "0.00", "-"]
    assert rows[1] == ["2", "b", "1", "-", "90", "-", "-"]
    found = gputopo(f"{line} -o json").document
    assert members_of(found)["b"]["startSeconds"] is None


def test_file_can_be_standard_input(gputopo: Command, file: Path) -> None:
    done = gputopo("ensemble plan - --nodes 1x3", stdin=file.read_bytes())
    assert done.out.startswith("2 members on 3 GPUs")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": []}, "file.spec.members: []: List should have at least 1 item"),
        ({"members": [{"nam": "a"}]}, "file.spec.members[0].name: is required"),
        ({"members": [{"name": "a", "epoch": 1}]}, "file.spec.members[0].epoch: there is no such"),
        (
            {"members": [{"name": "a", "rates": {0: 1}}]},
            "file.spec.members[0].rates[0].[key]: 0: Input should be",
        ),
        ({"members": [{"name": "a"}] * 2}, "file.spec.members: 'a' is listed twice"),
        (
            {"members": [{"name": "a", "epochs": 1, "steps": 1}]},
            "file.spec.members[a].steps: has epochs too; state one of them",
        ),
        (
            {"members": [{"name": "a", "steps": 1}]},
            "file.spec.members[a].batchSize: is required for steps",
        ),
        (
            {"members": [{"name": "a", "rates": [{"gpus": 1, "itemsPerSecond": 1}] * 2}]},
            "file.spec.members[0].rates: ",
        ),
        ({"spreadPercent": 101}, "file.spec.spreadPercent: 101"),
        (
            {"members": [{"name": "a", "profile": "resnet"}]},
            "file.spec.members[a].profile: 'resnet' is not in --profiles; export it with `kubectl",
        ),
        (
            {"members": [{"name": "a", "epochs": 1}], "itemsPerEpoch": None},
            "file.spec.itemsPerEpoch: is required for epochs of members",
        ),
        ({"pace": "Fast"}, "file.spec.pace: 'Fast'"),
        ({"maxGPUs": 0}, "file.spec.maxGPUs: 0"),
    ],
)
def test_invalid_file_is_rejected_with_field_and_value(
    gputopo: Command, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    done = gputopo(f"ensemble plan {write(tmp_path / 'bad.yaml', **change)} --nodes 1x4")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"gputopo: {message}")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "file: not valid YAML: "),
        ("[" * 5000, "file: is nested too deeply"),
        ("kind: Pod", "file.kind: 'Pod'"),
        ("", "file: '-' is empty; expected a GPUEnsemble with kind and spec"),
    ],
)
def test_file_that_is_no_ensemble_is_rejected(gputopo: Command, text: str, message: str) -> None:
    done = gputopo("ensemble plan - --nodes 1x4", stdin=text.encode())
    assert done.status == 2
    assert done.err.startswith(f"gputopo: {message}")


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"profile": "resnt", "batchSize": 1}, "'resnt' is not in --profiles; did you mean"),
        ({"profile": "resnet"}, "batchSize: is required: the profile counts steps"),
    ],
)
def test_invalid_profile_is_rejected(
    gputopo: Command, tmp_path: Path, profiles: Path, member: dict[str, object], message: str
) -> None:
    path = write(tmp_path / "bad.yaml", members=[{"name": "a", **member}])
    done = gputopo(f"ensemble plan {path} --nodes 1x4 --profiles {profiles}")
    assert done.status == 2
    assert message in done.err


def test_declared_rates_count_where_the_profile_knows_none(
    gputopo: Command, tmp_path: Path, profiles: Path
) -> None:
    rates = {1: 5, 2: 8, 4: 16}
    member = {"name": "a", "profile": "resnet", "batchSize": 1, "rates": rates, "steps": 1}
    path = write(tmp_path / "both.yaml", members=[member])
    line = f"ensemble plan {path} --nodes 1x4"
    assert members_of(gputopo(f"{line} -o json").document)["a"]["itemsPerSecond"] == 16
    measured = gputopo(f"{line} --profiles {profiles} -o json").document
    # 10 and 18 items/s are measured: 2 and 2.25 times the declared rates.
    assert members_of(measured)["a"]["itemsPerSecond"] == pytest.approx(16 * 2.125)


def test_spread_of_the_file_counts_without_the_option(gputopo: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "narrow.yaml", spreadPercent=0)
    line = f"ensemble plan {path} --nodes 1x3 --paper"
    assert len(gputopo(f"{line} -o json").document["flotillas"]) == 2
    assert len(gputopo(f"{line} --spread 40 -o json").document["flotillas"]) == 1


def test_profiles_of_two_namespaces_are_rejected(
    gputopo: Command, file: Path, tmp_path: Path
) -> None:
    twice = tmp_path / "twice.json"
    twice.write_text(json.dumps([{"metadata": {"name": "a"}, "spec": {}}] * 2))
    done = gputopo(f"ensemble plan {file} --nodes 1x4 --profiles {twice}")
    assert "'a' occurs twice" in done.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("plan /nowhere --nodes 1x4", "file: '/nowhere' cannot be read"),
        ("plan - --nodes 4", "nodes: '4' is not COUNTxGPUS, for example 3x8"),
        ("plan - --nodes 0x4", "nodes: '0' is not an integer in 1..10000"),
        ("plan - --nodes 1x99", "nodes: '99' is not an integer in 1..64"),
        ("plan -", "nodes: is required"),
        ("simulate --nodes 3x", "nodes: '' is not an integer"),
        ("simulate --epochs 5-4", "epochs: '5-4': the last number is below the first"),
        ("simulate --policies flee", "policies: 'flee' is not one of fleet"),
        ("simulate --policies end,end", "policies: 'end,end' lists an item twice"),
    ],
)
def test_invalid_options_are_rejected(gputopo: Command, line: str, message: str) -> None:
    done = gputopo(f"ensemble {line}")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"gputopo: {message}")


def test_nodes_are_numbered() -> None:
    assert parse_nodes("2x8, 1x4") == [
        NodeGpuCount("node-1", 8),
        NodeGpuCount("node-2", 8),
        NodeGpuCount("node-3", 4),
    ]


def test_simulation_as_a_table(gputopo: Command) -> None:
    lines = gputopo(f"ensemble {SMALL}").out.splitlines()
    assert lines[0] == "6 models of 1 epochs on 2 nodes of 4 GPUs, any nodes, 2 ensembles"
    assert [line.split()[0] for line in lines[4:]] == [policy.value for policy in EnsemblePolicy]
    assert lines[4].split()[2:5] == ["+0.0", "±", "0.0"]
    assert all(line.endswith("-") for line in lines[4:])


def test_simulation_as_json(gputopo: Command) -> None:
    line = f"ensemble {SMALL} --policies end,one-gpu --plan-times --one-node -o json"
    found = gputopo(line).document
    own, other = found["results"]
    assert "one node each" in found["runs"]
    assert own["policy"] == "end"
    assert own["planSeconds"] >= 0
    assert len(other["makespansHours"]) == 2
    assert other["makespanChange"]["mean"] > 0
    assert other["makespanHours"] >= other["boundHours"]


def test_one_ensemble_has_no_interval(gputopo: Command) -> None:
    line = "ensemble simulate --models 1 --nodes 1x2 --seeds 1 --epochs 1-2 --policies end,equal"
    out = gputopo(line).out
    assert "1 model of 1-2 epochs on 1 nodes of 2 GPUs, any nodes, 1 ensemble\n" in out
    assert "±" not in out


def test_progress_is_reported(gputopo: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[int, int]] = []
    bar = nullcontext(lambda done, total: steps.append((done, total)))
    monkeypatch.setattr(simulated, "progress_bar", lambda: bar)
    gputopo(f"ensemble {SMALL} --policies end,equal")
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_pictures_are_written(gputopo: Command, file: Path, tmp_path: Path) -> None:
    gputopo(f"ensemble plan {file} --nodes 2x2 --plots {tmp_path / 'new'}")
    gputopo(
        f"ensemble simulate --models 30 --nodes 4x4 --seeds 1 --policies end --plots {tmp_path}"
    )
    plan, end = tmp_path / "new" / "plan.svg", tmp_path / "end.svg"
    for path in (plan, end):
        assert ET.parse(path).getroot().tag.endswith("svg")  # noqa: S314 - our own file
    assert ">a</text>" in plan.read_text()
    assert ">model-1</text>" not in end.read_text()


def test_bars_show_no_gpu_twice_and_cut_off_unknown_ends() -> None:
    runs = [
        MemberRun(on("a", n0=1), 0, 5, 1),
        MemberRun(on("b", n0=1, n1=2), 0, 10, 1),
        MemberRun(on("c", n0=2), 10, None, None),
    ]
    found = bars(runs, [NodeGpuCount("n0", 2), NodeGpuCount("n1", 2)], 12)
    assert found == [
        GpuBar("a", 0, 1, 0, 5),
        GpuBar("b", 1, 3, 0, 10),
        GpuBar("c", 0, 2, 10, 12),
    ]


def test_group_prints_its_help_without_a_command(gputopo: Command) -> None:
    done = gputopo("ensemble")
    assert done.status == 2
    assert "trained together" in done.out
