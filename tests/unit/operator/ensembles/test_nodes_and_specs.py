"""Which nodes an ensemble can use, beside other ensembles, and which specs are rejected."""

from typing import Any

import pytest

from gputopo.ensemble.model import NodeGpuCount
from gputopo_kube.document import ObjectKey
from gputopo_operator.decision.ensemble.nodes import LONGEST_TEXT, nodes_text
from gputopo_operator.decision.node_affinity import only_node
from gputopo_operator.ensembles import MemberJob, MemberPod
from gputopo_operator.parse_ensembles import parse_ensemble
from support.builders.gpujobs import template
from support.operator.ensembles import EnsembleCluster, ensemble, member


def other_job(*, bound: bool = False, **fields: Any) -> MemberJob:
    pod = MemberPod("uid", "n1" if bound else None, running=bound, deleting=False, started=None)
    known = {"deleting": False, "gpus": 3, "node": "n1"}
    return MemberJob("other-a", "uid-job", "uid-other", pod=pod, **{**known, **fields})


@pytest.mark.parametrize(
    ("job", "free"),
    [
        (other_job(), 1),
        (other_job(bound=True), 4),  # its pod is not among the pods of this test
        (other_job(deleting=True), 4),
        (other_job(node=None), 4),
    ],
)
def test_gpus_planned_for_another_ensemble_are_not_planned_twice(job: MemberJob, free: int) -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {1: 10})))
    cluster.other_ensembles[ObjectKey("default", "other")] = {"a": job}
    assert cluster.found().nodes == (NodeGpuCount("n1", free),)


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
