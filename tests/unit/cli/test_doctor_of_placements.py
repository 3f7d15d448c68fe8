"""``gputopo doctor`` finds GPUs that are not used as the scheduler chose."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION
from support.api.static import StaticApi
from support.cli import healthy_cluster
from support.cli.broken_cluster import Break, conditions, findings, remove, todo
from support.cli.command_line import Command
from support.cli.healthy_cluster import PODS, TOPOLOGIES, uuids

ALL_THREE = "GPU 0, GPU 2, GPU 3 of its node: "
_USER_KEYS = ("podUID", "namespace", "pod", "container")
T2 = "GPUTopology n2"


def _annotate(**changed: Any) -> Break:
    def break_(api: StaticApi) -> None:
        annotations = api.lists[PODS][0]["metadata"]["annotations"]
        annotations[GPUS_ANNOTATION] = json.dumps(
            {**json.loads(annotations[GPUS_ANNOTATION]), **changed}
        )

    return break_


def _missing_allocation(api: StaticApi) -> None:
    for gpu in api.lists[TOPOLOGIES][0]["status"]["gpus"]:
        if gpu["uuid"] in uuids("n1", 2):
            for key in _USER_KEYS:
                del gpu[key]


TRAIN = "Pod default/train"
DELETE = "kubectl -n default delete pod train (its controller creates a new one)"


@pytest.mark.parametrize(
    ("break_", "problem", "wanted"),
    [
        (
            _annotate(uid="old"),
            f"{ALL_THREE}{GPUS_ANNOTATION}: uid is old, but the pod's uid is uid-train",
            DELETE,
        ),
        (
            _annotate(v=2),
            f"{ALL_THREE}{GPUS_ANNOTATION}: v: 2: Input should be 1",
            DELETE,
        ),
        (
            _missing_allocation,
            "GPU 2 of its node: missing from kubelet's pod-resources list",
            DELETE,
        ),
        (
            _annotate(containers={"main": uuids("n1", 0, 3, 2), "x": ["GPU-x"]}),
            "GPU GPU-x of its node: the node has no such GPU",
            DELETE,
        ),
        (
            remove(PODS, 0),
            f"{ALL_THREE}kubelet's pod-resources list names a pod that does not exist",
            "restart kubelet on n1, so that it removes the pod from its list",
        ),
    ],
)
def test_pods_whose_gpus_are_not_as_placed_are_errors(
    api: StaticApi, gputopo: Command, break_: Break, problem: str, wanted: str
) -> None:
    break_(api)
    assert findings(gputopo) == [("placements", "error", TRAIN, problem)]
    assert todo(gputopo) == wanted


def test_stale_annotation_of_an_unbound_pod_is_an_error(api: StaticApi, gputopo: Command) -> None:
    api.lists[PODS].append(healthy_cluster.pod("web", "n1", uuids("n1", 7)))
    del api.lists[PODS][-1]["spec"]["nodeName"]
    problem = f"{GPUS_ANNOTATION}: node is n1, but the pod's node is none"
    assert findings(gputopo) == [("placements", "error", "Pod default/web", problem)]


def test_remedy_for_a_node_without_a_topology_is_its_agent(
    api: StaticApi, gputopo: Command
) -> None:
    del api.lists[TOPOLOGIES][1]
    document = gputopo("doctor --settle 0 -o json").document
    (found,) = document["checks"][-1]["findings"]
    assert found["todo"] == "kubectl get gputopology n2: its agent must publish the GPUs first"


def test_processes_of_deleted_pods_that_stay_are_a_warning(
    api: StaticApi, gputopo: Command
) -> None:
    for gpu in api.lists[TOPOLOGIES][0]["status"]["gpus"]:
        if gpu.get("pod") == "train":
            gpu["podDeleted"] = True
    del api.lists[PODS][0]
    problem = f"{ALL_THREE}in use by a process, although this pod was deleted or has ended"
    assert findings(gputopo) == [("placements", "warning", TRAIN, problem)]
    assert todo(gputopo) == (
        "wait until the process ends, or end it on n1; before that no pod gets these GPUs"
    )


def test_difference_that_an_agent_reports_is_shown(api: StaticApi, gputopo: Command) -> None:
    conditions(1, "AllocationsAsPlaced", "pod ml/serve: container main has GPU-1")(api)
    shown = ("placements", "error", T2, "pod ml/serve: container main has GPU-1")
    assert findings(gputopo) == [shown]


def test_difference_that_an_agent_reports_too_is_shown_once(
    api: StaticApi, gputopo: Command
) -> None:
    _missing_allocation(api)
    conditions(0, "AllocationsAsPlaced", "pod default/train: container main has fewer")(api)
    assert len(findings(gputopo)) == 1


@pytest.mark.parametrize(("age_s", "late"), [(30, False), (90, True)])
def test_pod_that_its_node_does_not_admit_is_reported_after_a_minute(
    api: StaticApi, gputopo: Command, age_s: int, *, late: bool
) -> None:
    since = (datetime.now(UTC) - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    api.lists[PODS][0]["status"].update(phase="Pending", startTime=since)
    for gpu in api.lists[TOPOLOGIES][0]["status"]["gpus"]:
        for key in _USER_KEYS:
            gpu.pop(key, None)
    shown = (
        [("placements", "warning", TRAIN, f"kubelet of n1 has not admitted this pod since {since}")]
        if late
        else []
    )
    assert findings(gputopo) == shown
