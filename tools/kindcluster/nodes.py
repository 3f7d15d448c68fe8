"""The nodes of the cluster: their names, their simulated GPUs, kind's configuration of them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kindcluster import settings
from localcluster import controlplane, devicefiles, fakegpus, nodeconfig, numa
from localcluster.errors import ClusterError
from localcluster.releases import Release
from localcluster.settings import CDI_SPECS, DRIVER, NUMA_NODES, POD_NETWORK, SERVICE_NETWORK, Paths

BASE_SPEC = "/etc/containerd/cri-base.json"
"""The OCI spec from which containerd makes all containers of a node of kind."""

_FIRST_WITH_V1BETA4 = 36
"""Minor version from which kind writes kubeadm's configuration in v1beta4."""

# Lowering a process's OOM score needs CAP_SYS_RESOURCE, which root may lack in a VM.
_CONTAINERD_PATCH = """\
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
"""


def container_of(node: str) -> str:
    """Kind's name of a worker: gputopo-worker for n1, gputopo-worker2 for n2."""
    number = node.removeprefix("n")
    return f"{settings.CLUSTER}-worker{'' if number == '1' else number}"


def container_of_name(name: str) -> str:
    """The container of a node, by n1, n2, ... or its own name."""
    return container_of(name) if re.fullmatch(r"n[1-9]", name) else name


def by_container(servers: Mapping[str, str]) -> dict[str, str]:
    """The server that each worker simulates, by kind's names.

    Args:
        servers: by n1 to n9; see :func:`localcluster.fakegpus.parse_servers`.

    Raises:
        ClusterError: a number is missing, so that kind's names would not follow the numbers.
    """
    names = sorted(servers)
    for number, name in enumerate(names, 1):
        if name != f"n{number}":
            raise ClusterError(f"--gpus {name}=...: n{number} is missing; give the nodes in order")
    return {container_of(name): servers[name] for name in names}


def install(servers: Mapping[str, str], base_spec: Mapping[str, Any], paths: Paths) -> None:
    """Write the files of each worker with GPUs that its node then has at their places.

    Args:
        servers: by kind's names.
        base_spec: the node image's own OCI spec of a container.
        paths: folders.
    """
    spec = json.dumps(numa.base_spec(base_spec), indent=1)
    for name, server in servers.items():
        if server == fakegpus.NO_GPUS:
            continue
        folder = paths.node(name)
        folder.mkdir(parents=True)
        fakegpus.install(servers, name, folder / "gpus")
        devicefiles.create(folder / "gpus" / "devices", folder / "gpus" / "dev")
        numa.install(servers, name, folder / "numa")
        (folder / "base-spec.json").write_text(spec)


def configuration(
    servers: Mapping[str, str], image: str, release: Release, paths: Paths, *, own_docker: bool
) -> dict[str, Any]:
    """The content of kind's configuration file.

    Args:
        servers: by kind's names.
        image: node image.
        release: version of Kubernetes.
        paths: folders.
        own_docker: whether Docker runs in a network of its own, so that this machine reaches the
            API server at the daemon's address.
    """
    networking: dict[str, Any] = {"podSubnet": POD_NETWORK, "serviceSubnet": SERVICE_NETWORK}
    if own_docker:
        networking["apiServerAddress"] = settings.DAEMON_ADDRESS
        networking["apiServerPort"] = settings.API_PORT
    workers = [
        {"role": "worker", "image": image, "extraMounts": _mounts(server, paths.node(name))}
        for name, server in servers.items()
    ]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": settings.CLUSTER,
        "networking": networking,
        "kubeadmConfigPatches": [json.dumps(patch) for patch in _patches(release)],
        "containerdConfigPatches": [_CONTAINERD_PATCH],
        "nodes": [{"role": "control-plane", "image": image}, *workers],
    }


def _mounts(server: str, folder: Path) -> list[dict[str, Any]]:
    """What a worker with GPUs has in place of its own files; still after the node's restart."""
    if server == fakegpus.NO_GPUS:
        return []
    places = {
        DRIVER: folder / "gpus",
        CDI_SPECS / "nvidia.json": folder / "gpus" / "cdi.json",
        NUMA_NODES: folder / "numa",
        Path(BASE_SPEC): folder / "base-spec.json",
    }
    return [
        {"hostPath": str(source), "containerPath": str(place), "readOnly": place != DRIVER}
        for place, source in places.items()
    ]


def _patches(release: Release) -> list[dict[str, Any]]:
    kubelet = {"kind": "KubeletConfiguration", **nodeconfig.common_kubelet_fields(release)}
    controller_manager = {"extraArgs": _controller_manager_arguments(release)}
    return [kubelet, {"kind": "ClusterConfiguration", "controllerManager": controller_manager}]


def _controller_manager_arguments(release: Release) -> object:
    """Arguments in the form of kubeadm's API: a list from v1beta4 on, which replaces kind's own."""
    kinds_own = {"enable-hostpath-provisioner": "true"}
    arguments = {**kinds_own, **controlplane.NODE_MONITOR}
    if release.number < _FIRST_WITH_V1BETA4:
        return arguments
    return [{"name": name, "value": value} for name, value in arguments.items()]
