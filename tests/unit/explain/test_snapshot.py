"""A snapshot lists what it could not parse, and answers what would be without pods or nodes."""

from gputopo.api.names import CLAIMS_ANNOTATION
from gputopo.catalogue import named
from gputopo_cluster.claims import Claim, format_claims
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.snapshot import ClusterSnapshot, snapshot_of
from gputopo_kube.document import ObjectKey
from support.builders.clusters import annotated
from support.builders.objects import Document, pod, topology_object
from support.builders.requests import request_of

DGX = named("dgx1-v100", node="n1")
UUIDS = [gpu.uuid for gpu in DGX.gpus]


def lease(annotations: dict[str, str], name: str = "gputopo-claims") -> Document:
    return {
        "metadata": {"name": name, "namespace": "gputopo-system", "annotations": annotations},
    }


def user(name: str, gpus: slice) -> Document:
    uuids = UUIDS[gpus]
    annotations = annotated(f"uid-{name}", "n1", uuids)
    return pod(name, len(uuids), node="n1", phase="Running", annotations=annotations)


def free_on(snapshot: ClusterSnapshot, node: str = "n1") -> int:
    usage = snapshot.usages[node]
    assert isinstance(usage, NodeUsage)
    return usage.free


def test_pods_that_cannot_be_parsed_are_named_and_left_out() -> None:
    invalid = {"metadata": {"namespace": "ns", "name": "odd"}, "spec": {"containers": "none"}}
    found = snapshot_of([topology_object("n1", DGX)], [invalid, {"spec": None}])
    assert not found.pods
    assert [fault.partition(":")[0] for fault in found.faults] == ["pod ns/odd", "pod None/None"]


def test_claims_that_cannot_be_parsed_are_named_and_other_leases_are_ignored() -> None:
    leases = [lease({CLAIMS_ANNOTATION: "{"}), lease({}, "gputopo-scheduler")]
    found = snapshot_of([topology_object("n1", DGX)], [], leases)
    assert not found.claims
    (fault,) = found.faults
    assert fault.startswith("Lease gputopo-system/gputopo-claims: annotation gputopo.io/claims:")
    assert "no pod can be bound" in fault


def test_gpus_of_a_claim_are_used_until_its_pod_is_bound() -> None:
    claims = format_claims([Claim("uid-a", "default", "a", "1", "n1", (UUIDS[3],))])
    waiting = snapshot_of([topology_object("n1", DGX)], [pod("a")], [lease(claims)])
    assert free_on(waiting) == 0b11110111
    bound = snapshot_of([topology_object("n1", DGX)], [user("a", slice(0, 1))], [lease(claims)])
    assert free_on(bound) == 0b11111110


def test_gpus_of_an_ended_pod_are_used_until_the_agent_has_seen_its_end() -> None:
    ended = user("a", slice(0, 4))
    ended["status"]["phase"] = "Succeeded"
    ended["metadata"]["resourceVersion"] = "9"
    for version, free in ((8, 0b11110000), (9, 0b11111111)):
        found = snapshot_of([topology_object("n1", DGX, pods_version=version)], [ended])
        assert free_on(found) == free


def test_pods_can_be_left_out_one_after_another() -> None:
    objects = [user("a", slice(0, 4)), user("b", slice(4, 8))]
    found = snapshot_of([topology_object("n1", DGX)], objects)
    assert free_on(found) == 0
    once = found.without_pods(["uid-a"])
    assert free_on(once) == 0b00001111
    assert free_on(once.without_pods(["uid-b"])) == 0b11111111
    assert free_on(found) == 0


def test_processes_of_a_deleted_pod_can_be_left_out_by_the_name_of_the_pod() -> None:
    topology = topology_object("n1", DGX, used_by={0: "gone"}, deleted=[0])
    found = snapshot_of([topology], [])
    assert free_on(found) == 0b11111110
    uids = found.users(ObjectKey("default", "gone"))
    assert uids == {"gone"}
    assert free_on(found.without_pods(uids)) == 0b11111111


def test_users_of_a_name_are_the_pod_and_its_predecessor() -> None:
    topology = topology_object("n1", DGX, used_by={7: "a"}, deleted=[7])
    found = snapshot_of([topology], [user("a", slice(0, 1))])
    assert found.users(ObjectKey("default", "a")) == {"uid-a", "a"}
    assert not found.users(ObjectKey("default", "b"))


def test_nodes_can_be_left_out() -> None:
    broken = {**topology_object("n2", DGX), "spec": {}}
    found = snapshot_of([topology_object("n1", DGX), broken], [])
    assert [*found.evaluate(request_of(2)).fitting()] == ["n1"]
    without = found.without_nodes({"n1"})
    assert [*without.usages] == ["n2"]
    assert not without.evaluate(request_of(2)).has_fit()


def test_equal_nodes_share_one_state_and_unknown_nodes_have_no_topology() -> None:
    other = named("dgx1-v100", node="n2")
    found = snapshot_of([topology_object("n1", DGX), topology_object("n2", other)], [])
    assert found.state_for("n1") is found.state_for("n2")
    evaluated = found.evaluate(request_of(2), ["n1", "absent"])
    assert evaluated.fitting() == ["n1"]
    assert evaluated.unresolvable() == {"absent": "no GPUTopology"}
