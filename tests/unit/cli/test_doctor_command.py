"""Output and exit status of ``gputopo doctor``."""

import json
import re
from pathlib import Path

import pytest

from support.api.kubeconfig import write_kubeconfig
from support.api.static import StaticApi
from support.cli.broken_cluster import OPERATOR, change, conditions, configured, no_agent
from support.cli.command_line import Command
from support.cli.healthy_cluster import (
    BINDINGS,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEFINITIONS,
    DEPLOYMENTS,
    NODES,
    PODS,
    POLICIES,
    TOPOLOGIES,
    VERSION,
    configz,
)

ROOT = Path(__file__).parents[3]


def test_doctor_finds_nothing_on_a_healthy_cluster(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    done = gputopo("doctor")
    assert (done.status, done.err) == (0, "")
    assert done.out.count(" ok ") == 11
    assert done.out.endswith("\n\n11 checks: no problems found\n")
    document = gputopo("doctor -o json").document
    assert {check["result"] for check in document["checks"]} == {"ok"}
    assert (document["errors"], document["warnings"], document["notChecked"]) == (0, 0, 0)


def test_equal_problems_of_many_objects_are_reported_once(api: StaticApi, gputopo: Command) -> None:
    for i in range(3, 10):
        api.lists[NODES].append(json.loads(json.dumps(api.lists[NODES][0]).replace("n1", f"n{i}")))
        api.lists[TOPOLOGIES].append(
            json.loads(json.dumps(api.lists[TOPOLOGIES][1]).replace('"n2"', f'"n{i}"'))
        )
        api.objects[configz(f"n{i}")] = api.objects[configz("n1")]
        for gpu in api.lists[TOPOLOGIES][-1]["status"]["gpus"]:
            gpu.pop("pod", None)
    said = gputopo("doctor --settle 0").out
    where = "error: Node n3, n4, n5, n6, n7 and 2 more\n  no agent runs on this node, so "
    assert said.count("no agent runs on this node, so ") == said.count(where) == 1
    assert "`kubectl describe node n3` (for n3; the others in the same way)\n" in said
    assert said.endswith("11 checks: 7 errors\n")


def test_warnings_alone_are_status_0(api: StaticApi, gputopo: Command) -> None:
    configured(nodeCacheCapable=False)(api)
    done = gputopo("doctor --settle 0")
    assert done.status == 0
    assert done.out.endswith("11 checks: 1 warning\n")


def test_errors_are_status_3_and_counted(api: StaticApi, gputopo: Command) -> None:
    configured(ignorable=True, nodeCacheCapable=False, bindVerb="")(api)
    done = gputopo("doctor --settle 0")
    assert (done.status, done.err) == (3, "")
    assert done.out.endswith("11 checks: 2 errors, 1 warning\n")


def test_control_characters_of_a_cluster_do_not_reach_the_terminal(
    api: StaticApi, gputopo: Command
) -> None:
    conditions(1, "GPUsHealthy", "GPU-5:\n\x1b[31mXID 79")(api)
    assert "\n  GPUs are unhealthy: GPU-5: [31mXID 79\n" in gputopo("doctor --settle 0").out


FORBIDDEN = 'nodes "n1" is forbidden: User "alice" cannot get resource "nodes/proxy"'


@pytest.mark.parametrize(
    ("path", "unread"),
    [
        (configz("n1"), {"kubelets"}),
        (CONFIG_MAPS, {"scheduler"}),
        (DEPLOYMENTS, {"workloads", "versions", "scheduler"}),
        (DAEMON_SETS, {"workloads", "versions", "competitors"}),
        (POLICIES, {"policies"}),
        (BINDINGS, {"policies"}),
        (f"{DEFINITIONS}/gpujobs.gputopo.io", {"definitions"}),
        (VERSION, {"versions"}),
    ],
)
def test_checks_without_permission_are_skipped_and_reported(
    api: StaticApi, gputopo: Command, path: str, unread: set[str]
) -> None:
    api.forbid(path, FORBIDDEN)
    conditions(1, "GPUsHealthy", "GPU-5: XID 79")(api)
    document = gputopo("doctor --settle 0 -o json").document
    said = {
        check["check"]: check["notChecked"] for check in document["checks"] if check["notChecked"]
    }
    assert said == dict.fromkeys(unread, f"no permission: {FORBIDDEN}")
    assert (document["notChecked"], document["warnings"]) == (len(unread), 1)
    shown = gputopo("doctor --settle 0").out
    assert shown.endswith(f"11 checks, {len(unread)} of them incomplete: 1 warning\n")
    assert "not checked  no permission: nodes" in shown


def test_findings_of_an_incomplete_check_are_reported(api: StaticApi, gputopo: Command) -> None:
    api.forbid(DAEMON_SETS, "no")
    change(DEPLOYMENTS, OPERATOR, status={})(api)
    document = gputopo("doctor --settle 0 -o json").document
    (check,) = [each for each in document["checks"] if each["check"] == "workloads"]
    assert check["result"] == "error"
    assert check["notChecked"] == "no permission: no"


@pytest.mark.parametrize("path", [TOPOLOGIES, PODS, NODES])
def test_missing_permission_for_required_objects_is_bad_input(
    api: StaticApi, gputopo: Command, path: str
) -> None:
    api.forbid(path, "you may not")
    done = gputopo("doctor")
    assert (done.status, done.out, done.err) == (2, "", "gputopo: API server: 403: you may not\n")


def test_missing_parts_of_gputopo_are_reported(api: StaticApi, gputopo: Command) -> None:
    for kept in (DEFINITIONS, TOPOLOGIES):
        api.lists.pop(kept, None)
    for path in (POLICIES, BINDINGS, DEPLOYMENTS, DAEMON_SETS, CONFIG_MAPS):
        api.lists[path].clear()
    api.lists[PODS] = api.lists[PODS][2:3]
    api.objects = {VERSION: api.objects[VERSION]}
    done = gputopo("doctor --settle 0")
    assert done.status == 3
    kinds = ("gpuensembles", "gpujobs", "gpuprofiles", "gputopologies")
    names = ", ".join(f"{kind}.gputopo.io" for kind in kinds)
    assert f"error: CustomResourceDefinition {names}\n  is missing\n" in done.out
    assert done.out.count("  to do: ") == 4
    assert done.out.count("  to do: install the chart: docs/start/install.md\n") == 4
    assert done.out.count(f" not checked  gputopologies cannot be read: {TOPOLOGIES} is not") == 5


def test_unreachable_cluster_is_bad_input(api: StaticApi, gputopo: Command, tmp_path: Path) -> None:
    assert api.url
    write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")
    done = gputopo("doctor")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("gputopo: API server: http://127.0.0.1:9: ")


@pytest.mark.parametrize("text", ["-1", "soon", "3601"])
def test_invalid_delay_is_rejected(api: StaticApi, gputopo: Command, text: str) -> None:
    assert api.url
    done = gputopo(f"doctor --settle {text}")
    assert done.status == 2
    assert done.err.startswith(f"gputopo: settle: {text!r}: Input should be ")


@pytest.mark.parametrize("is_fixed", [False, True])
def test_only_findings_that_last_are_reported(
    api: StaticApi, gputopo: Command, monkeypatch: pytest.MonkeyPatch, *, is_fixed: bool
) -> None:
    configured(ignorable=True)(api)
    pauses = []

    def pass_time(seconds: float) -> None:
        pauses.append(seconds)
        configured(ignorable=not is_fixed, nodeCacheCapable=False)(api)

    monkeypatch.setattr("time.sleep", pass_time)
    done = gputopo("doctor")
    assert pauses == [10]
    assert done.status == (0 if is_fixed else 3)
    assert done.out.endswith(f"11 checks: {'no problems found' if is_fixed else '1 error'}\n")


def test_guide_shows_the_real_output(api: StaticApi, gputopo: Command) -> None:
    guide = (ROOT / "docs/use/cli.md").read_text()
    shown = re.search(r"\$ kubectl gputopo (doctor.*)\n([\s\S]*?)```", guide)
    assert shown
    configured(ignorable=True)(api)
    no_agent(api)
    assert gputopo(f"{shown[1]} --settle 0", program="kubectl-gputopo").out == shown[2]
