"""``gputopo place --live`` answers for a cluster in use, and says what it could not read."""

import json
import re
from pathlib import Path

import pytest

from support.api.static import StaticApi
from support.builders.live import gpu_user
from support.cli import live_cluster as cluster
from support.cli.command_line import Command
from support.cli.reachable import Serve

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs/use/what-if.md"
EXAMPLES = re.findall(r"```\n\$ gputopo ([^\n]*)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
DEPLOYMENT = """
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      schedulerName: SCHEDULER
      nodeSelector: {}
      containers: [{name: a, resources: {limits: {gputopo.io/gpu: 1}}}]
"""


WITH_RULES = (
    b"kind: Pod\nspec: {schedulerName: gputopo, containers: [{name: a, resources:"
    b" {limits: {gputopo.io/gpu: 1}}}], %s}"
)


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    return serve(cluster.live_cluster())


@pytest.mark.parametrize(("line", "said"), EXAMPLES, ids=lambda text: text[:40])
def test_guide_shows_the_real_output(
    api: StaticApi, gputopo: Command, line: str, said: str
) -> None:
    assert api.url
    assert gputopo(line).out == said


def test_json_has_the_node_the_gpus_and_all_options(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    found = gputopo("place --live --gpus 2 -o json").document
    assert (found["node"], found["gpus"], found["equallyGood"]) == ("n1", [6, 7], ["n1"])
    assert len(found["uuids"]) == 2
    assert found["request"] == {
        "gpus": 2,
        "pattern": "ring",
        "sensitive": True,
        "reason": "SensitivityUnknown",
        "policy": "preserve",
    }
    assert [(each["nodes"], each["best"], each["score"]) for each in found["options"]] == [
        (["n1"], True, 10),
        (["n3"], False, 9),
    ]
    assert found["explanation"]["reasons"][0]["nodes"] == ["n2"]
    assert found["notes"] == []


def test_json_without_a_node_has_the_pods_that_would_have_to_end(
    api: StaticApi, gputopo: Command
) -> None:
    assert api.url
    done = gputopo("place --live --gpus 4 -o json")
    assert done.status == 3
    found = done.document
    assert (found["node"], found["gpus"], found["runnersUp"]) == (None, None, [])
    first, second = found["explanation"]["releases"]
    assert first["pods"][0] | {"ends": None} == {
        "pod": "default/train-x",
        "uid": "uid-train-x",
        "gpus": 4,
        "priority": 0,
        "owner": "GPUJob train",
        "stopping": False,
        "ends": None,
    }
    assert first["atMostSeconds"] is None
    assert second["atMostSeconds"] == second["expectedSeconds"]
    assert found["explanation"]["preemption"]["helps"] is False


def test_preemption_names_an_example(api: StaticApi, gputopo: Command, tmp_path: Path) -> None:
    assert api.url
    job = {
        "kind": "GPUJob",
        "spec": {
            "gpusPerReplica": 4,
            "priorityClassName": "high",
            "template": {"spec": {"containers": [{"name": "main"}]}},
        },
    }
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job))
    done = gputopo(f"place --live -f {path}")
    assert done.status == 3
    assert "preemption may help" in done.out
    assert "for example default/train-x on n1" in done.out
    release = gputopo(f"place --live -f {path} -o json").document["explanation"]["preemption"]
    assert release["release"]["node"] == "n1"


def test_a_manifest_whose_pod_would_wait_shows_the_wait(
    api: StaticApi, gputopo: Command, tmp_path: Path
) -> None:
    api.lists[cluster.NODES].pop(2)
    api.lists[cluster.PODS] = [gpu_user("a", "n1", 1, 4), gpu_user("b", "n1", 6, 2)]
    job = {
        "kind": "GPUJob",
        "spec": {
            "gpusPerReplica": 2,
            "placement": {"policy": "Utility", "minUtilityPercent": 95},
            "template": {"spec": {"containers": [{"name": "main"}]}},
        },
    }
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job))
    done = gputopo(f"place --live -f {path}")
    assert done.status == 3
    assert done.out.startswith("the pod waits for utility 0.95: it would get 0.")
    assert "utility below 0.95" in done.out
    assert "not postponed yet; no pod comes first\n" in done.out
    found = gputopo(f"place --live -f {path} -o json").document
    assert (found["node"], found["explanation"]["state"]) == (None, "Postponed")


def test_picture_is_that_of_the_chosen_node(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    done = gputopo("place --live --gpus 2 -o svg")
    assert done.out.startswith("<svg")
    assert "node/n1" in done.out
    nothing = gputopo("place --live --gpus 4 -o svg")
    assert (nothing.status, nothing.out) == (3, "")
    assert nothing.err.startswith("nothing to draw: the pod waits for 4 GPUs")


def test_one_node_can_be_chosen(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    assert gputopo("place --live --gpus 1 --node n3").out.startswith("GPU 5 of n3\n")
    done = gputopo("place --live --gpus 2 --node n2")
    assert done.status == 3
    assert done.out.startswith("the job does not fit n2 now; it fits n1, n3\n")
    assert "cordoned" in done.out
    assert gputopo("place --live --gpus 2 --without-node n1").out.startswith("GPUs 6, 7 of n3\n")


def test_equally_good_nodes_are_named(api: StaticApi, gputopo: Command) -> None:
    api.lists[cluster.PODS] = []
    api.lists[cluster.NODES][1]["spec"] = {}
    out = gputopo("place --live --gpus 2").out
    assert "or the same of another equally good node: n1, n2\n" in out
    fits_all = gputopo("place --live --gpus 2 --without-node n2 --without-node n3").out
    assert "does not fit" not in fits_all


def test_manifest_of_a_deployment_is_read_from_standard_input(
    api: StaticApi, gputopo: Command
) -> None:
    assert api.url
    manifest = DEPLOYMENT.replace("SCHEDULER", "gputopo").encode()
    done = gputopo("place --live -f -", stdin=manifest)
    assert done.status == 0
    assert done.out.startswith("GPU ")
    other = gputopo("place --live -f -", stdin=DEPLOYMENT.encode())
    assert other.status == 3
    assert "spec.schedulerName: the pod is of the scheduler 'SCHEDULER'" in other.out


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b"a: [", "filename: not valid YAML: while parsing"),
        (b"[" * 5000, "filename: is nested too deeply"),
        (b"- 1", "filename: has 0 objects of the kinds Pod, GPUJob"),
        (b"kind: Pod\n---\nkind: Pod", "filename: has 2 objects of the kinds"),
        (b"kind: Pod\nspec: 3", "filename: spec: 3 is not an object"),
        (
            b"kind: Pod\nspec: {containers: [{}]}",
            "filename: pod spec.containers[0].name: is req",
        ),
        (b"kind: Service", "filename: kind: 'Service' is not one of"),
        (WITH_RULES % b"tolerations: [3]", "filename: spec.tolerations[0]: 3:"),
        (WITH_RULES % b"nodeSelector: [a]", "filename: spec.nodeSelector: ['a']:"),
        (WITH_RULES % b"affinity: {nodeAffinity: 3}", "filename: spec.affinity.nodeAffinity: 3:"),
        (WITH_RULES % b"schedulingGates: [x]", "filename: spec.schedulingGates[0]: 'x':"),
        (WITH_RULES % b"volumes: x", "filename: spec.volumes: 'x':"),
    ],
)
def test_manifest_that_is_not_valid_names_the_field(
    api: StaticApi, gputopo: Command, manifest: bytes, message: str
) -> None:
    assert api.url
    done = gputopo("place --live -f -", stdin=manifest)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize(
    ("options", "pattern"),
    [("", "ring"), ("--pattern chain", "chain"), ("--edges 0-1", "custom")],
)
def test_pattern_of_the_options_is_that_of_the_job(
    api: StaticApi, gputopo: Command, options: str, pattern: str
) -> None:
    assert api.url
    found = gputopo(f"place --live --gpus 2 {options} -o json").document
    assert found["request"]["pattern"] == pattern


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--live", "gpus: is required without --filename"),
        ("--live --gpus 1 --node n9", "node: 'n9': the cluster has no node of this name"),
        ("--live --gpus 1 --without-node n9", "without-node: 'n9': the cluster has no node"),
        ("--live --gpus 1 --after-end x/y", "after-end: 'x/y': there is no pod of this name"),
        ("--live --gpus 1 --topology dgx-2", "topology: --topology is not possible with --live"),
        ("--live --gpus 1 --busy 1", "busy: --busy is not possible with --live"),
        ("--live --gpus 1 --model eq2", "model: --model is not possible with --live"),
        ("--live --gpus 1 -f x.yaml", "filename: the manifest states the job: leave out --gpus"),
        ("--gpus 1 --node n1", "live: --filename, --node, --after-end and --without-node need"),
        ("--gpus 1", "topology: is required without --live"),
        ("--topology dgx-2", "gpus: is required: state how many GPUs the job requests"),
        ("--live --gpus 1 --edges 0_1", "edges: '0_1' is not written as 0-1"),
    ],
)
def test_options_that_contradict_each_other_are_rejected(
    api: StaticApi, gputopo: Command, line: str, message: str
) -> None:
    assert api.url
    done = gputopo(f"place {line}")
    assert done.status == 2
    assert message in done.err


def test_pods_without_gpus_can_be_left_out_too(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    assert gputopo("place --live --gpus 1 --after-end web").status == 0


@pytest.mark.parametrize(
    ("path", "note"),
    [
        (cluster.NODES, "nodes: no permission: denied: kube-scheduler's own filters are not"),
        (cluster.PODS, "pods: no permission: denied: the GPUs of pods are known only from"),
        (cluster.GPU_JOBS, "gpujobs: no permission: denied: expected durations of GPUJobs are"),
        (cluster.JOBS, "jobs: no permission: denied: deadlines of Jobs are not considered"),
        (cluster.LEASE, "leases: no permission: denied: pods that are being bound now are not"),
        (cluster.DEPLOYMENTS, "Deployments cannot be read: no permission: denied: the default"),
    ],
)
def test_missing_permissions_are_noted_and_the_command_goes_on(
    api: StaticApi, gputopo: Command, path: str, note: str
) -> None:
    api.forbid(path, "denied")
    done = gputopo("place --live --gpus 1")
    assert done.status == 0
    assert f"note: {note}" in done.out
    assert any(note in each for each in gputopo("place --live --gpus 1 -o json").document["notes"])


def test_without_gputopo_the_reason_is_shown(api: StaticApi, gputopo: Command) -> None:
    del api.lists[cluster.TOPOLOGIES]
    done = gputopo("place --live --gpus 1")
    assert done.status == 3
    assert done.out.startswith("the cluster has no node with a readable GPUTopology\n")
    text = "note: gputopologies: the cluster does not have this kind of object: the GPUs of the"
    assert text in done.out


def test_topologies_that_cannot_be_read_are_named_with_the_reason(
    api: StaticApi, gputopo: Command
) -> None:
    for topology in api.lists[cluster.TOPOLOGIES]:
        topology["spec"] = {"gpus": "\x1b[31mred"}
    done = gputopo("place --live --gpus 1")
    assert done.status == 3
    assert "unreadable GPUTopology: gpus:" in done.out
    assert "\x1b" not in done.out


def test_server_error_is_a_note_and_wrong_credentials_are_an_error(
    api: StaticApi, gputopo: Command
) -> None:
    api.rejections[cluster.JOBS] = (500, b'{"message": "etcd has no leader"}')
    assert "etcd has no leader" in gputopo("place --live --gpus 1").out
    api.rejections[cluster.PODS] = (401, b'{"message": "Unauthorized"}')
    done = gputopo("place --live --gpus 1")
    assert done.status == 2
    assert "Unauthorized" in done.err


def test_hostile_names_in_the_cluster_stay_on_one_line(api: StaticApi, gputopo: Command) -> None:
    train = api.lists[cluster.PODS][0]
    train["metadata"]["labels"] = {}
    train["metadata"]["ownerReferences"][0] |= {"kind": "Job\n\x1b[2J", "name": "x"}
    out = gputopo("place --live --gpus 4").out
    assert "\x1b" not in out
    assert "Job [2J x" in out


def test_policy_utility_shows_the_utility_of_each_node(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    table = gputopo("place --live --gpus 2 --policy utility").out
    assert "CPUS  UTILITY  NODE" in table
    assert "UTILITY  COMMUNICATION  INTERFERENCE  FRAGMENTATION" in table
    found = gputopo("place --live --gpus 2 --policy utility -o json").document
    best = found["options"][0]
    assert best["utility"] == found["utility"]
    assert best["score"] == 10
