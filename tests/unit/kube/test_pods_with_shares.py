"""The view of a pod that requests shares of GPUs."""

import pytest

from gputopo.api.names import RESOURCE
from gputopo_kube.gpu_containers import ContainerKind, GpuContainer
from gputopo_kube.pods import parse_gpu_pod, parse_pod
from support.builders.objects import container, pod
from support.builders.requests import pod_view
from support.builders.shares import SHARES, share_container, sharing_pod


def test_container_with_a_share_is_a_gpu_container() -> None:
    view = pod_view(sharing_pod("a"))
    assert view.containers == (GpuContainer("main", 1, shared=True),)
    assert view.shares
    assert view.aligned == ()
    assert not pod_view(pod("b")).shares


def test_container_with_both_resources_is_there_twice() -> None:
    init = share_container("init") | {"restartPolicy": "Always"}
    document = sharing_pod("a", containers=[share_container(gpus=2), container("other", 3)])
    document["spec"]["initContainers"] = [init]
    view = pod_view(document)
    assert view.containers == (
        GpuContainer("init", 1, ContainerKind.SIDECAR, shared=True),
        GpuContainer("main", 2),
        GpuContainer("main", 1, shared=True),
        GpuContainer("other", 3),
    )
    assert [(each.name, each.gpus) for each in view.aligned] == [("main", 2), ("other", 3)]


def test_request_of_no_share_is_none() -> None:
    none = share_container()
    none["resources"]["requests"][SHARES] = "0"
    assert parse_gpu_pod(sharing_pod("a", containers=[none]), RESOURCE) is None


def test_other_resources_are_not_shares() -> None:
    document = sharing_pod("a")
    amounts = {f"{SHARES}s": "1"}
    document["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    assert parse_gpu_pod(document, RESOURCE) is None


def test_exclusive_cpus_are_not_aligned_with_shares() -> None:
    document = sharing_pod("a")
    resources = document["spec"]["containers"][0]["resources"]
    for amounts in resources.values():
        amounts |= {"cpu": "2", "memory": "1Gi"}
    document["status"]["qosClass"] = "Guaranteed"
    assert all(each.gpus == 0 for each in pod_view(document).exclusive)


@pytest.mark.parametrize("shared", [True, False])
def test_rejection_for_the_resource_of_the_pod_counts(*, shared: bool) -> None:
    document = sharing_pod("a") if shared else pod("a")
    own = SHARES if shared else RESOURCE
    document["spec"]["containers"][0]["resources"]["requests"]["rdma/hca"] = "1"
    for resource, expected in ((own, True), ("rdma/hca", False)):
        document["status"] = {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": f"Allocate failed due to no healthy devices present; for {resource}",
        }
        assert pod_view(document).rejected_for_gpus is expected


def test_pod_without_gpus_has_no_shares() -> None:
    document = pod("a", 0)
    assert parse_gpu_pod(document, RESOURCE) is None
    assert not parse_pod(document).shares
