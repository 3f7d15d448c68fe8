"""The DaemonSet that runs MPS: only on request, and with what MPS needs of the host."""

import pytest

from gputopo.api.names import RESOURCE
from gputopo.api.shares import share_resource
from gputopo_mps.folders import SharedMemory
from gputopo_mps.settings import MpsSettings
from support.helm_chart import Helm, HelmError, Object, container, find, pod_of

NAME = "gputopo-mps"


def test_it_is_rendered_only_if_gpus_are_shared(
    objects: list[Object], everything: list[Object]
) -> None:
    def kinds(rendered: list[Object]) -> set[str]:
        return {each["kind"] for each in rendered if each["metadata"]["name"] == NAME}

    assert kinds(objects) == set()
    assert kinds(everything) == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"),
        *("NetworkPolicy", "PodMonitor"),
    }


def test_its_arguments_are_settings(helm: Helm, everything: list[Object]) -> None:
    def settings(rendered: list[Object]) -> MpsSettings:
        arguments = container(find(rendered, "DaemonSet", NAME), "mps")["args"]
        return MpsSettings.load(arguments, {"GPUTOPO_MPS_NODE": "n1"})

    found = settings(everything)
    assert found.share_resource == "example.com/gpu-share"
    assert str(found.library_dir) == "/driver/lib/driver/lib"
    assert found.control_program == "/driver/bin/driver/bin/nvidia-cuda-mps-control"
    assert found.client_user == 0
    assert found.shared_memory == SharedMemory("2g", 1000)
    assert found.max_pods_per_gpu == 2
    default = settings(helm.render({"sharing": {"enabled": True}}))
    assert default.share_resource == share_resource(RESOURCE)
    assert default.control_program == "nvidia-cuda-mps-control"
    assert default.client_user is None
    assert default.shared_memory == SharedMemory("8g", 65_536)
    assert default.max_pods_per_gpu == 3


def test_containers_can_mount_its_folders(everything: list[Object]) -> None:
    default = MpsSettings(node="n1")
    for name, main, volume, propagation in (
        (NAME, "mps", "run", "Bidirectional"),
        ("gputopo-deviceplugin", "deviceplugin", "mps", "HostToContainer"),
    ):
        daemons = find(everything, "DaemonSet", name)
        mounts = {each["name"]: each for each in container(daemons, main)["volumeMounts"]}
        paths = {each["name"]: each.get("hostPath") for each in pod_of(daemons)["volumes"]}
        assert mounts[volume]["mountPath"] == paths[volume]["path"] == str(default.run_dir)
        assert mounts[volume]["mountPropagation"] == propagation
    pod = pod_of(find(everything, "DaemonSet", NAME))
    assert "initContainers" not in pod


def test_only_it_shares_the_process_list_of_the_host(everything: list[Object]) -> None:
    pods = [each for each in everything if each["kind"] in {"DaemonSet", "Deployment"}]
    assert [each["metadata"]["name"] for each in pods if pod_of(each).get("hostPID")] == [NAME]
    (rule,) = find(everything, "ClusterRole", NAME)["rules"]
    assert (rule["resources"], rule["verbs"]) == (["pods"], ["list", "watch"])


def test_its_port_is_that_of_its_probes(helm: Helm, everything: list[Object]) -> None:
    port = MpsSettings(node="n1").probes_port
    ports = container(find(everything, "DaemonSet", NAME), "mps")["ports"]
    assert ports == [{"name": "metrics", "containerPort": port}]
    policy = find(everything, "NetworkPolicy", NAME)
    assert policy["spec"]["ingress"] == [{"ports": [{"protocol": "TCP", "port": port}]}]
    values = {"sharing": {"enabled": True}, "serviceMonitor": {"enabled": True}}
    service = find(helm.render(values), "Service", f"{NAME}-metrics")
    assert service["spec"]["ports"][0]["port"] == port


def test_values_of_an_older_chart_are_rejected_with_the_remedy(helm: Helm) -> None:
    with pytest.raises(HelmError, match="--reset-then-reuse-values"):
        helm.render({"sharing": {"enabled": True}, "mps": None})
