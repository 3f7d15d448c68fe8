"""The four sources that must agree for every container with GPUs.

The extender's annotation; environment and device nodes inside the container; kubelet's
pod-resources list; kubelet's checkpoint file.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputopo.api.annotations import parse_gpus
from gputopo.api.names import RESOURCE
from gputopo.api.shares import gpu_of, share_resource
from showcase.kubectl import Kubectl, Object

_AGENT = "app.kubernetes.io/component=deviceplugin"

_INSIDE = 'echo "$CUDA_VISIBLE_DEVICES"; stat -c "%n %t %T" /dev/nvidia[0-9]* 2>/dev/null; true'

# Runs in the node agent's container, which mounts both of kubelet's records.
_READ_RECORDS = """
import json, grpc
from gputopo_deviceplugin.kubelet.podresources import api_pb2, api_pb2_grpc
with grpc.insecure_channel(
    "unix:///var/lib/kubelet/pod-resources/kubelet.sock",
    options=[("grpc.default_authority", "localhost")],
) as channel:
    listed = api_pb2_grpc.PodResourcesListerStub(channel).List(api_pb2.ListPodResourcesRequest())
resources = [
    [pod.namespace, pod.name, container.name, list(devices.device_ids)]
    for pod in listed.pod_resources
    for container in pod.containers
    for devices in container.devices
    if devices.resource_name in (RESOURCE, RESOURCE + "-share")
]
with open("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint") as file:
    data = json.load(file)["Data"]
checkpoint = [
    [entry["PodUID"], entry["ContainerName"], sum(entry["DeviceIDs"].values(), [])]
    for entry in data["PodDeviceEntries"] or []
    if entry["ResourceName"] in (RESOURCE, RESOURCE + "-share")
]
print(json.dumps({"podresources": resources, "checkpoint": checkpoint}))
"""


@dataclass(frozen=True, slots=True)
class ContainerGpus:
    """One running container and its GPUs by every source: UUIDs, or the device IDs of shares.

    Attributes:
        annotated: ``gputopo.io/gpus``, in rank order.
        visible: ``CUDA_VISIBLE_DEVICES`` inside the container, in order.
        device_nodes: the GPUs whose ``/dev/nvidiaN`` the container has, by its major:minor.
        podresources: devices in kubelet's pod-resources list.
        checkpoint: devices in kubelet's checkpoint file.
    """

    namespace: str
    pod: str
    container: str
    node: str
    annotated: tuple[str, ...]
    visible: tuple[str, ...]
    device_nodes: frozenset[str]
    podresources: frozenset[str]
    checkpoint: frozenset[str]

    @property
    def agrees(self) -> bool:
        """Whether all sources agree, rank order included."""
        gpus = tuple(map(gpu_of, self.annotated))
        return (
            gpus == self.visible
            and set(gpus) == self.device_nodes
            and set(self.annotated) == self.podresources == self.checkpoint
            and len(self.annotated) > 0
        )


@dataclass(frozen=True, slots=True)
class _KubeletRecords:
    podresources: Mapping[tuple[str, str, str], frozenset[str]]
    checkpoint: Mapping[tuple[str, str], frozenset[str]]


def read_containers(kubectl: Kubectl, pods: Sequence[Object]) -> list[ContainerGpus]:
    """Read all sources for the GPU containers of these running pods."""
    nodes = {pod["spec"]["nodeName"] for pod in pods}
    records = {node: _read_records(kubectl, node) for node in nodes}
    uuids = {node: _uuid_of_minor(kubectl, node) for node in nodes}
    return [
        _read_container(kubectl, pod, container["name"], records, uuids)
        for pod in pods
        for container in pod["spec"]["containers"]
        if {RESOURCE, share_resource(RESOURCE)}
        & container.get("resources", {}).get("limits", {}).keys()
    ]


def _read_container(
    kubectl: Kubectl,
    pod: Object,
    container: str,
    records: Mapping[str, _KubeletRecords],
    uuids: Mapping[str, Mapping[int, str]],
) -> ContainerGpus:
    metadata, node = pod["metadata"], pod["spec"]["nodeName"]
    namespace, name = metadata["namespace"], metadata["name"]
    gpus = parse_gpus(metadata.get("annotations", {}))
    inside = kubectl.execute(name, namespace, "sh", "-c", _INSIDE, container=container)
    visible, *stats = inside.splitlines()
    return ContainerGpus(
        namespace=namespace,
        pod=name,
        container=container,
        node=node,
        annotated=tuple(gpus.containers.get(container, ())) if gpus else (),
        visible=tuple(visible.split(",")) if visible else (),
        device_nodes=frozenset(uuids[node].get(_minor(line), line) for line in stats),
        podresources=records[node].podresources.get((namespace, name, container), frozenset()),
        checkpoint=records[node].checkpoint.get((metadata["uid"], container), frozenset()),
    )


def _minor(line: str) -> int:
    """Return the device's minor number from a ``stat`` line."""
    _, major, minor = line.split()
    return int(minor, 16) if int(major, 16) == _NVIDIA_MAJOR else -1


_NVIDIA_MAJOR = 195


def _uuid_of_minor(kubectl: Kubectl, node: str) -> dict[int, str]:
    spec = kubectl.get("gputopology", node)["spec"]
    return {gpu["minor"]: gpu["uuid"] for gpu in spec["gpus"]}


def _read_records(kubectl: Kubectl, node: str) -> _KubeletRecords:
    agent = next(
        pod["metadata"]
        for pod in kubectl.list("pods", selector=_AGENT)
        if pod["spec"].get("nodeName") == node and pod["status"]["phase"] == "Running"
    )
    program = f"RESOURCE = {RESOURCE!r}{_READ_RECORDS}"
    read = json.loads(kubectl.execute(agent["name"], agent["namespace"], "python3", "-c", program))
    podresources: dict[tuple[str, str, str], frozenset[str]] = {}
    for namespace, pod, container, ids in read["podresources"]:
        key = (namespace, pod, container)
        podresources[key] = podresources.get(key, frozenset()) | set(ids)
    return _KubeletRecords(
        podresources=podresources,
        checkpoint={(uid, name): frozenset(ids) for uid, name, ids in read["checkpoint"]},
    )
