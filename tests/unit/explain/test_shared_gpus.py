"""Pending pods that request a share, and what-if questions for them."""

import pytest

from gputopo.api.names import AVOID_ANNOTATION
from gputopo.sharing.loadlaw import LoadCapacity
from gputopo_cluster.picture import ClusterPicture
from gputopo_explain.objects import ClusterObjects, parse_installation
from gputopo_explain.pending.model import PendingState
from gputopo_explain.pending.pods import explain_pod
from gputopo_explain.shared_gpus import AVOIDED, TRIAL, share_outlooks
from gputopo_explain.whatif import place_live
from gputopo_kube.document import ObjectKey
from support.builders.live import cluster, gpu_user, installed, kube_node, with_cpu
from support.builders.objects import Document, avoiding, container, pod
from support.builders.requests import pod_view
from support.shares import SHARES, share, sharing_cluster, sharing_pod, sharing_topology

NO_IDLE = "no idle GPU, and on shared GPUs "


def full(shared_by: str = "small", **pods: Document) -> list[Document]:
    """Return a pod on GPU 0, which it shares, and one that has the other GPUs of the node."""
    first = sharing_pod("first", share(0), profile=shared_by)
    return [first, gpu_user("whole", "n1", 1, 7), *pods.values()]


def test_a_pod_shares_the_gpu_for_which_this_pays() -> None:
    objects = sharing_cluster(
        [sharing_pod("first", share(0, 2))], [sharing_topology({share(0, 2): "first"})]
    )
    found = place_live(sharing_pod("new"), objects)
    assert found.chosen is not None
    assert [*found.chosen.uuids] == [share(1, 2)]
    assert found.chosen.shared is not None
    assert found.chosen.shared.beside == ("default/first",)
    assert found.chosen.shared.summed_speed == 1.6
    assert [(each.pod, each.percent, each.limit) for each in found.chosen.shared.slowdowns] == [
        ("default/first", 25, 100),
        ("default/new", 25, 100),
    ]
    [outlook] = found.explanation.shared_gpus
    assert (outlook.node, outlook.gpu, outlook.allowed) == ("n1", 2, True)


def test_a_pod_gets_an_idle_gpu_if_it_would_be_the_first() -> None:
    found = place_live(sharing_pod("new"), sharing_cluster())
    assert found.chosen is not None
    assert found.chosen.shared is None
    assert [*found.chosen.uuids] == [share(0, found.chosen.matches[0].gpus[0])]


def test_a_pod_gets_an_idle_gpu_if_sharing_does_not_pay() -> None:
    objects = sharing_cluster([sharing_pod("first", share(0), profile="large")])
    found = place_live(sharing_pod("new"), objects)
    assert found.chosen is not None
    assert found.chosen.shared is None
    assert found.chosen.matches[0].gpus != (0,)
    [outlook] = found.explanation.shared_gpus
    assert not outlook.allowed
    assert outlook.reason.startswith("predicted summed speed 1.00")


def test_the_settings_of_the_installation_decide() -> None:
    pods, new = [sharing_pod("first", share(0), profile="")], sharing_pod("new", profile="")
    for flags, chosen in (
        ((), None),
        (("--sharing-unknown-pairs=Try",), None),
        (("--sharing-unknown-pairs=Never", "--sharing-preference=Never"), None),
    ):
        found = place_live(new, sharing_cluster(pods, deployments=[installed(*flags)]))
        assert found.chosen is not None
        assert found.chosen.shared is chosen
    small = [sharing_pod("first", share(0))]
    for flag in ("--sharing-preference=Idle", "--sharing-min-gain-percent=61"):
        objects = sharing_cluster(small, deployments=[installed(flag)])
        found = place_live(sharing_pod("new"), objects)
        assert found.chosen is not None
        assert found.chosen.shared is None
    slow = installed("--sharing-max-slowdown-percent=24")
    [outlook] = place_live(
        sharing_pod("new"), sharing_cluster(small, deployments=[slow])
    ).explanation.shared_gpus
    assert not outlook.allowed


def test_load_capacity_of_the_installation_is_read() -> None:
    for text, expected in (
        ("NVIDIA A100-SXM4-80GB=50", {"NVIDIA A100-SXM4-80GB": LoadCapacity(0.5)}),
        ("not a capacity", {}),
    ):
        found = parse_installation([installed(f"--sharing-load-capacity={text}")])
        assert found.sharing.capacities == expected


def test_an_unknown_pair_is_tried_where_no_gpu_is_idle() -> None:
    new = sharing_pod("new", profile="unknown")
    [outlook] = explain_pod(new, sharing_cluster(full())).shared_gpus
    assert not outlook.allowed
    assert outlook.reason.startswith("gain of default/")
    assert outlook.summed_speed is None
    trying = sharing_cluster(full(), deployments=[installed("--sharing-unknown-pairs=Try")])
    found = explain_pod(new, trying)
    assert found.state is PendingState.FITS
    assert [(each.allowed, each.reason) for each in found.shared_gpus] == [(True, TRIAL)]


def test_a_pending_pod_has_the_reason_of_each_node_and_gpu() -> None:
    found = explain_pod(sharing_pod("new"), sharing_cluster(full("large")))
    assert found.state is PendingState.WAITING
    assert [group.reason for group in found.groups] == [NO_IDLE + "sharing would not pay"]
    assert found.summary == "the pod waits for a share of a GPU: it fits n1 when 1 pod ends"
    assert [each.beside for each in found.shared_gpus] == [("default/first",)]


def test_memory_and_faults_of_mps_are_reasons() -> None:
    large = {"gputopo.io/sharing-memory": "30Gi"}
    new = sharing_pod("new", annotations=large)
    [group] = explain_pod(new, sharing_cluster(full())).groups
    assert group.reason == NO_IDLE + "too little memory is left"
    [outlook] = explain_pod(new, sharing_cluster(full())).shared_gpus
    assert (outlook.reason, outlook.slowdowns) == ("too little memory is left", ())
    fault = [sharing_topology(faults={0: "MPS is in state Failed"})]
    [group] = explain_pod(sharing_pod("new"), sharing_cluster(full(), fault)).groups
    assert group.reason == NO_IDLE + "MPS is not ready"


def test_a_node_without_shares_is_no_place_for_sharing_pods() -> None:
    objects = sharing_cluster(topologies=[sharing_topology(most=None)])
    found = explain_pod(sharing_pod("new"), objects)
    assert found.state is PendingState.IMPOSSIBLE
    assert found.groups[0].reason == "the node offers no shares of GPUs"
    assert not found.shared_gpus
    assert "sharing.enabled" in (found.remedy or "")


def test_a_gpu_beside_a_pod_to_avoid_is_not_shared() -> None:
    first = sharing_pod("first", share(0))
    first["metadata"]["labels"] = {"app": "noisy"}
    new = sharing_pod("new", annotations=avoiding(app="noisy"))
    assert AVOID_ANNOTATION in new["metadata"]["annotations"]
    [outlook] = explain_pod(new, sharing_cluster([first])).shared_gpus
    assert (outlook.allowed, outlook.reason) == (False, AVOIDED)


def test_a_pod_of_whole_gpus_has_no_shared_gpus() -> None:
    assert not explain_pod(pod("new"), sharing_cluster(full())).shared_gpus


def test_all_pods_of_a_shared_gpu_must_end_for_a_pod_with_a_whole_gpu() -> None:
    second = sharing_pod("second", share(1))
    objects = sharing_cluster(full(second=second))
    found = explain_pod(pod("new", 2), objects)
    assert found.groups[0].reason == "too few free GPUs"
    [release] = found.releases
    assert [each.pod for each in release.pods] == ["default/whole"]
    one = explain_pod(pod("new", 8), objects)
    assert one.releases[0].node == "n1"
    assert sorted((each.pod, each.gpus) for each in one.releases[0].pods) == [
        ("default/first", 0),
        ("default/second", 1),
        ("default/whole", 7),
    ]
    shared = explain_pod(pod("new", 1), objects)
    assert shared.groups[0].reason == "too few free GPUs beside those that pods share"


def test_one_pod_of_a_shared_gpu_ends_for_a_sharing_pod() -> None:
    pods = full(second=sharing_pod("second", share(1)), third=sharing_pod("third", share(2)))
    found = explain_pod(sharing_pod("new", profile="large"), sharing_cluster(pods[:1] + pods[1:2]))
    assert [[each.pod for each in it.pods] for it in found.releases] == [["default/first"]]
    crowded = explain_pod(sharing_pod("new"), sharing_cluster(pods))
    assert crowded.groups[0].reason == NO_IDLE + "there are the most pods already"
    [release] = crowded.releases
    assert [each.pod for each in release.pods] == ["default/whole"]


def test_no_snapshot_of_the_cluster_is_made_for_each_pod_that_shares_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    devices = [share(number, gpu) for gpu in range(8) for number in range(2)]
    pods = [sharing_pod(device, device, profile="large") for device in devices]
    objects = sharing_cluster(pods, [sharing_topology({it: it for it in devices})])
    monkeypatch.delattr(ClusterPicture, "without_pods")
    found = explain_pod(sharing_pod("new", profile=""), objects)
    assert found.state is PendingState.WAITING
    assert [len(each.pods) for each in found.releases] == [2]


def sharing_cluster_with_cpus(*pods: Document) -> ClusterObjects:
    """Return a node of 64 CPUs whose other GPUs are in use."""
    node = kube_node("n1")
    node["status"]["allocatable"][SHARES] = "24"
    topology = sharing_topology({share(0): "first"})
    return cluster(pods, nodes=["n1"], topologies=[topology], kube_nodes=[node])


def cpu_user(name: str, cpu: str) -> Document:
    return with_cpu(pod(name, containers=[container("c")], node="n1", phase="Running"), cpu)


def test_a_pod_that_may_share_a_gpu_waits_only_for_the_pods_that_have_the_cpus() -> None:
    objects = sharing_cluster_with_cpus(sharing_pod("first", share(0)), cpu_user("cpus", "60"))
    new = with_cpu(sharing_pod("new"), "30")
    found = explain_pod(new, objects)
    [release] = found.releases
    assert [each.pod for each in release.pods] == ["default/cpus"]
    assert explain_pod(new, objects.after({"uid-cpus"})).state is PendingState.FITS


def test_a_pod_that_needs_a_shared_gpu_and_cpus_waits_for_the_pods_of_both() -> None:
    objects = sharing_cluster_with_cpus(*full("large"), cpu_user("cpus", "60"))
    new = with_cpu(sharing_pod("new"), "30")
    [release] = explain_pod(new, objects).releases
    assert [each.pod for each in release.pods] == ["default/first", "default/cpus"]
    after = objects.after({"uid-first", "uid-cpus"})
    assert explain_pod(new, after).state is PendingState.FITS


def test_preemption_does_not_help_beside_shared_gpus() -> None:
    objects = sharing_cluster(full("large"))
    new = sharing_pod("new")
    new["spec"]["priority"] = 100
    outlook = explain_pod(new, objects).preemption
    assert outlook is not None
    assert not outlook.helps
    assert "counts GPUs and shares separately" in outlook.reason
    whole = pod("new", 2)
    whole["spec"]["priority"] = 100
    outlook = explain_pod(whole, objects).preemption
    assert outlook is not None
    assert not outlook.helps
    assert "on nodes with shared GPUs" in outlook.reason


def test_after_the_end_of_a_pod_the_gpu_is_not_shared_with_it() -> None:
    objects = sharing_cluster(full("large")).after({"uid-first"})
    found = place_live(sharing_pod("new"), objects)
    assert found.chosen is not None
    assert [*found.chosen.uuids] == [share(0)]
    assert found.explanation.pod == ObjectKey("default", "new")


def test_nodes_whose_kubelet_takes_gpus_by_numa_node_have_no_shared_gpus() -> None:
    aligned = sharing_topology({share(0): "first"})
    aligned["status"]["alignment"] = {"policy": "restricted", "scope": "container"}
    found = explain_pod(sharing_pod("new"), sharing_cluster(full(), [aligned]))
    assert found.groups[0].reason == (
        "the node offers no shares of GPUs while kubelet takes GPUs by NUMA node"
    )
    assert not found.shared_gpus


def test_a_pod_without_a_profile_and_a_wrong_limit_is_not_beside_others() -> None:
    wrong = sharing_pod("first", share(0), annotations={"gputopo.io/sharing-memory": "much"})
    objects = sharing_cluster([wrong, *full()[1:]])
    assert [each.beside for each in explain_pod(sharing_pod("new"), objects).shared_gpus] == [
        ("default/first",)
    ]


def test_only_nodes_that_offer_shares_have_shared_gpus() -> None:
    view, topology = pod_view(sharing_pod("new")), sharing_topology(most=None)
    snapshot = sharing_cluster([sharing_pod("first", share(0))], [topology]).snapshot
    assert share_outlooks(view, ["n1", "unknown"], snapshot) == []


def test_a_share_of_an_unknown_pod_keeps_others_from_the_gpu() -> None:
    pods = [gpu_user("whole", "n1", 1, 7)]
    objects = sharing_cluster(pods, [sharing_topology({share(0): "gone"})])
    [outlook] = explain_pod(sharing_pod("new"), objects).shared_gpus
    assert (outlook.allowed, outlook.reason) == (False, "the pods are not known yet")
