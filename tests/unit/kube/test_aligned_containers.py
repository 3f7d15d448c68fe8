"""Which containers get exclusive CPUs of kubelet's static CPU manager."""

from typing import Any

import pytest

from gputopo.api.names import RESOURCE
from gputopo_kube.aligned_containers import AlignedContainer
from gputopo_kube.gpu_containers import ContainerKind
from gputopo_kube.pods import parse_pod
from support.builders.objects import pod


def container(name: str, cpu: object, gpus: int = 0) -> dict[str, Any]:
    limits = {"cpu": cpu, "memory": "1Gi"} | ({RESOURCE: str(gpus)} if gpus else {})
    return {"name": name, "resources": {"limits": limits, "requests": limits}}


def document(*containers: dict[str, Any], qos: str = "Guaranteed", **more: Any) -> dict[str, Any]:
    made = pod("a", containers=containers, **more)
    made["status"]["qosClass"] = qos
    return made


def test_whole_cpus_of_a_guaranteed_pod_are_exclusive_in_kubelets_order() -> None:
    sidecar = container("sidecar", "1", 1) | {"restartPolicy": "Always"}
    made = document(
        container("main", "4", 2),
        container("shared", "500m"),
        container("helper", 2),
        init_containers=[container("load", 1), sidecar],
    )
    assert parse_pod(made).aligned == (
        AlignedContainer("load", 0, 1, ContainerKind.INIT),
        AlignedContainer("sidecar", 1, 1, ContainerKind.SIDECAR),
        AlignedContainer("main", 2, 4),
        AlignedContainer("helper", 0, 2),
    )


@pytest.mark.parametrize("cpu", ["1500m", "many", "0"])
def test_other_amounts_of_cpus_come_from_the_shared_pool(cpu: str) -> None:
    assert parse_pod(document(container("main", cpu, 2))).aligned == (
        AlignedContainer("main", 2, 0),
    )


def test_pods_of_other_classes_and_pods_with_own_resources_get_no_exclusive_cpus() -> None:
    shared = (AlignedContainer("main", 2, 0),)
    assert parse_pod(document(container("main", 1, 2), qos="Burstable")).aligned == shared
    of_pod = document(container("main", 1, 2))
    of_pod["spec"]["resources"] = {"limits": {"cpu": "2"}}
    assert parse_pod(of_pod).aligned == shared
    assert parse_pod(pod("a", 2)).aligned == shared
