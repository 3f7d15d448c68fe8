"""Which nodes an ensemble can use, beside other ensembles, and which specs are rejected."""

from datetime import timedelta
from typing import Any

import pytest

from gputopo.api.names import RESOURCE
from gputopo.api.shares import share_id
from gputopo.ensemble.model import NodeGpuCount
from gputopo.runtime.times import timestamp
from gputopo.topology.model import GpuUuid
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.decision.ensemble.nodes import (
    LONGEST_TEXT,
    changed_nodes_text,
    nodes_hash,
    nodes_text,
    usable_nodes,
)
from gputopo_operator.decision.node_affinity import only_node
from gputopo_operator.model.ensembles import ClusterGpus, MemberJob, MemberPod
from gputopo_operator.parse.ensemble_spec import parse_ensemble
from gputopo_operator.parse.ensembles import parse_member_jobs
from gputopo_operator.parse.queue import cluster_of, parse_gpu_pods
from support.builders.gpujobs import template
from support.builders.objects import condition, pod
from support.builders.shares import sharing_pod
from support.operator.ensembles import EnsembleCluster, ensemble, member
from support.operator.queue import node as gpu_node


def other_job(*, bound: bool = False, **fields: Any) -> MemberJob:
    pod = MemberPod("uid", "n1" if bound else None, running=bound, deleting=False, started=None)
    known: dict[str, Any] = {"deleting": False, "gpus": 3, "node": "n1", "pod": pod}
    known |= {"owner_uid": "uid-other"}
    return MemberJob("other-a", "uid-job", **{**known, **fields})


@pytest.mark.parametrize(
    ("job", "free"),
    [
        (other_job(), 1),
        (other_job(bound=True), 4),  # its pod is not among the pods of this test
        (other_job(deleting=True), 4),
        (other_job(node=None), 4),
        (other_job(suspended=True), 4),
        (other_job(owner_uid=""), 4),  # a GPUJob of any user, with the labels of a member
        (other_job(owner_uid="uid-former"), 4),
    ],
)
def test_gpus_planned_for_another_ensemble_are_not_planned_twice(job: MemberJob, free: int) -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {1: 10})))
    cluster.other_ensembles[ObjectKey("default", "other")] = {"a": job}
    assert cluster.found().nodes == (NodeGpuCount("n1", free),)
    cluster.other_uids = {}  # the other ensemble was deleted
    assert cluster.found().nodes == (NodeGpuCount("n1", 4),)


@pytest.mark.parametrize(("seconds", "free"), [(179, 1), (180, 4)])
def test_member_that_gets_no_node_holds_its_gpus_for_minutes(seconds: int, free: int) -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {1: 10})))
    since = timestamp(cluster.now - timedelta(seconds=seconds))
    queued = other_job(pod=None, queued_since=since)
    cluster.other_ensembles[ObjectKey("default", "other")] = {"a": queued}
    assert cluster.found().nodes == (NodeGpuCount("n1", free),)
    cluster.other_ensembles[ObjectKey("default", "other")] = {"a": other_job()}
    waits = pod("waits", 3, uid="uid")
    waits["metadata"]["creationTimestamp"] = since
    waits["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    ]
    cluster.other_pods = [waits]
    assert cluster.found().nodes == (NodeGpuCount("n1", free),)


@pytest.mark.parametrize("status", ["True", "False"])
def test_time_since_which_a_queue_holds_a_member_is_in_its_conditions(status: str) -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {1: 10})))
    cluster.run_on()
    suspended = condition("Suspended", status, "SuspendedByQueue")
    cluster.jobs["search-a"]["status"] = {"conditions": [suspended]}
    found = parse_member_jobs(cluster.jobs.values(), ())[ObjectKey("default", "search")]
    since = suspended["lastTransitionTime"] if status == "True" else None
    assert found["a"].queued_since == since


def share(name: str, gpu: int, number: int, node: str = "n1") -> Document:
    device = share_id(GpuUuid(f"GPU-n1-{gpu}"), number)
    return sharing_pod(name, share=device, node=node, phase="Running")


def used(gpu: int, *pods: str) -> dict[int, list[str]]:
    return {gpu: [f"uid-{each}" for each in pods]}


@pytest.mark.parametrize(
    ("pods", "agent", "free"),
    [
        ([share("x", 1, 0), share("y", 1, 1), share("z", 1, 2)], {}, 3),
        ([share("x", 1, 0), share("y", 2, 0)], {}, 2),
        ([share("x", 1, 0)], used(1, "x"), 3),
        ([share("x", 1, 0)], used(1, "x", "ended"), 3),
        ([share("x", 1, 0)], used(2, "ended"), 2),
        ([share("x", 1, 0, "unknown")], {}, 4),
    ],
)
def test_a_gpu_that_pods_share_counts_once(
    pods: list[Document], agent: dict[int, list[str]], free: int
) -> None:
    topology = gpu_node("n1", 4)
    for gpu, uids in agent.items():
        name = f"GPU-n1-{gpu}"
        shares = [
            {"id": share_id(GpuUuid(name), number), "podUID": uid, "pod": uid}
            for number, uid in enumerate(uids)
        ]
        topology["status"]["gpus"][gpu] |= {"podUID": uids[0], "shares": shares}
    picture = cluster_of({"n1": parse_gpu_node(topology)}, parse_gpu_pods(pods, RESOURCE))
    cluster = ClusterGpus(picture, {"n1": {"metadata": {"name": "n1"}}})
    spec = parse_ensemble(ensemble(member("a"))).spec
    assert spec is not None
    assert usable_nodes(cluster, spec, ()) == (NodeGpuCount("n1", free),)


def test_only_nodes_that_all_members_may_use_are_planned() -> None:
    first = member("a", {1: 10}, jobTemplate=job(nodeSelector={"node": "n1"}))
    second = member("b", {1: 10}, jobTemplate=job())
    cluster = EnsembleCluster({"n1": 4, "n2": 4}, ensemble(first, second))
    assert [node.name for node in cluster.found().nodes] == ["n1"]
    cluster.run_on()
    assert {node for node, _ in cluster.running().values()} == {"n1"}


def test_ensemble_without_usable_nodes_waits() -> None:
    wanted = member("a", {1: 10}, jobTemplate=job(nodeSelector={"zone": "x"}))
    cluster = EnsembleCluster({"n1": 4}, ensemble(wanted))
    cluster.run_on()
    assert cluster.status["phase"] == "Pending"
    assert cluster.condition("Planned")["message"].endswith("usable GPUs: no node with GPUs")


def job(**pod: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"team": "x"}}, "spec": {"template": template(**pod)}}


def test_labels_of_the_template_are_those_of_the_job() -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {1: 10}, jobTemplate=job())))
    cluster.run_on()
    assert cluster.jobs["search-a"]["metadata"]["labels"]["team"] == "x"


def test_profile_of_the_member_is_that_of_the_job() -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {1: 10}, profile="resnet")))
    cluster.run_on()
    assert cluster.jobs["search-a"]["spec"]["workload"] == {"profile": "resnet"}


def test_node_is_added_to_each_term_of_an_affinity() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    kind = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {kind: {"nodeSelectorTerms": [{"matchExpressions": [zone]}, {}]}}}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    terms = [{"matchExpressions": [zone], "matchFields": [name]}, {}]
    assert only_node(affinity, "n1")["nodeAffinity"][kind]["nodeSelectorTerms"] == terms


def test_long_list_of_nodes_is_cut() -> None:
    nodes = [NodeGpuCount(f"node-{number}", 8) for number in range(1000)]
    assert len(nodes_text(nodes)) == LONGEST_TEXT


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ("n1: 4", {"n1": 3}, "n1: 3, before 4"),
        ("n1: 4, n2: 1", {"n1": 4, "n3": 8}, "n2: 0, before 1; n3: 8, before 0"),
        ("", {"n1": 2}, "n1: 2, before 0"),
        ("n1: 4, n2...", {"n1": 3, "n2": 1}, "n1: 3, before 4"),
        ("n1: 4, n2...", {"n1": 4, "n2": 1}, "of nodes that are not listed"),
        (
            ", ".join(f"n{n}: 1" for n in range(1, 8)),
            {f"n{n}": 2 for n in range(1, 8)},
            "; ".join(f"n{n}: 2, before 1" for n in range(1, 6)) + " and 2 more",
        ),
    ],
)
def test_text_names_the_nodes_that_changed(before: str, now: dict[str, int], text: str) -> None:
    nodes = [NodeGpuCount(name, gpus) for name, gpus in now.items()]
    assert changed_nodes_text(before, nodes) == text


def test_node_without_usable_gpus_may_come_and_go() -> None:
    idle, full = NodeGpuCount("n1", 8), NodeGpuCount("n2", 0)
    assert nodes_hash([idle, full]) == nodes_hash([idle])
    assert nodes_hash([idle]) != nodes_hash([idle, NodeGpuCount("n2", 1)])


def test_each_of_many_nodes_counts() -> None:
    names = [f"ip-10-0-0-{number:03}.eu-central-1.compute.internal" for number in range(150)]
    cluster = EnsembleCluster(dict.fromkeys(names, 1), ensemble(member("a", {1: 100})))
    cluster.others = dict.fromkeys(names, 1)
    cluster.run_on()
    assert cluster.phases() == {"a": "Waiting"}
    cluster.others[names[-1]] = 0
    cluster.run_on()
    assert cluster.phases() == {"a": "Running"}
    assert cluster.status["plan"]["reason"].startswith("usable GPUs: of nodes that are not listed")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"members": []}, "spec.members: []: List should have at least 1 item"),
        ({"maxGPUs": 0}, "spec.maxGPUs: 0: Input should be greater than or equal to 1"),
        (
            {"members": [member("a", jobTemplate={"spec": {"template": {"spec": 5}}})]},
            "spec.members[a].jobTemplate.spec.template.spec: 5: Input should be",
        ),
        (
            {"members": [member("a", jobTemplate=job(tolerations=["all"]))]},
            "spec.members[a].jobTemplate.spec.template.spec.tolerations[0]: 'all': Input",
        ),
        (
            {"members": [member("a", jobTemplate={"spec": {"template": {}, "limits": 1}})]},
            "spec.members[a].jobTemplate.spec.limits: 1: Input should be",
        ),
    ],
)
def test_invalid_spec_names_field_and_value(changed: dict[str, Any], message: str) -> None:
    raw = ensemble(member("a"))
    raw["spec"] |= changed
    found = parse_ensemble(raw)
    assert found.spec is None
    assert found.spec_error.startswith(message)


@pytest.mark.parametrize("rate", ["99999999999", "0.0000001", "0.0", 0, -5, 1_000_000_001])
def test_impossible_rate_of_an_older_api_server_is_rejected(rate: int | str) -> None:
    wrong = member("a", {2: rate})
    text = f"itemsPerSecond: {rate}; must be 0.001 to 1000000000"
    assert parse_ensemble(ensemble(wrong)).spec_error == f"spec.members[a].rates[2].{text}"
    preprocessing = {
        "throughput": [{"cores": 4, "itemsPerSecond": rate}],
        "template": template(),
    }
    found = parse_ensemble(ensemble(member("a"), preprocessing=preprocessing))
    assert found.spec_error == f"spec.preprocessing.throughput[4].{text}"


@pytest.mark.parametrize("rate", ["0.001", 1, 1_000_000_000, "1000000000.0"])
def test_extreme_rates_are_planned(rate: int | str) -> None:
    raw = member("a", {1: rate})
    preprocessing = {
        "throughput": [{"cores": 1, "itemsPerSecond": 1}],
        "template": template(),
        "shared": False,
    }
    cluster = EnsembleCluster({"n1": 4}, ensemble(raw, preprocessing=preprocessing))
    cluster.run_on()
    assert cluster.of("a")["plannedMicroItemsPerSecond"] == float(rate) * 1e6
    assert cluster.decide().status is None


@pytest.mark.parametrize(
    ("fields", "spec"),
    [
        ({"epochs": 2}, {"itemsPerEpoch": 2**53 - 1}),
        ({"steps": 2**31 - 1, "batchSize": 2**31 - 1}, {}),
    ],
)
def test_items_have_a_largest_number(fields: dict[str, int], spec: dict[str, int]) -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {1: 100}, **fields), **spec))
    cluster.run_on()
    cluster.end("a")
    cluster.run_on()
    assert cluster.of("a")["itemsDone"] == 2**53 - 1
    assert cluster.of("a")["progressPercent"] == 100
