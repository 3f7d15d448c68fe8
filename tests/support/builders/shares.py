"""Pods that request shares of GPUs, and GPUTopology objects of nodes that offer them."""

import json
from collections.abc import Iterable, Mapping

from gputopo.api.names import (
    GPUS_ANNOTATION,
    PROFILE_ANNOTATION,
    RESOURCE,
    SHARING_MAX_SLOWDOWN_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
)
from gputopo.api.shares import share_resource
from gputopo.topology.model import NodeTopology
from support.builders.objects import Document, pod, topology_object

SHARES = share_resource(RESOURCE)


def share_container(name: str = "main", shares: int = 1, gpus: int = 0) -> Document:
    """Return a container that requests shares of GPUs, and perhaps whole GPUs."""
    amounts = {SHARES: str(shares)} | ({RESOURCE: str(gpus)} if gpus else {})
    return {"name": name, "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}


def sharing_pod(
    name: str,
    workload: str = "",
    *,
    memory: str = "",
    limit: int | None = None,
    share: str = "",
    node: str | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    containers: Iterable[Document] = (),
    uid: str = "",
    phase: str = "Pending",
) -> Document:
    """Return a pod that requests one share.

    Args:
        name: name of the pod.
        workload: name of its GPUProfile.
        memory: GPU memory of the pod.
        limit: its slowdown in percent.
        share: device ID that the extender has chosen.
        node: node of the pod.
        annotations: further annotations.
        labels: labels of the pod.
        containers: other containers than one with a share.
        uid: UID of the pod.
        phase: phase of the pod.
    """
    uid = uid or f"uid-{name}"
    found = dict(annotations or {})
    if workload:
        found[PROFILE_ANNOTATION] = workload
    if memory:
        found[SHARING_MEMORY_ANNOTATION] = memory
    if limit is not None:
        found[SHARING_MAX_SLOWDOWN_ANNOTATION] = str(limit)
    if share:
        placed = {
            "uid": uid,
            "node": node or "n1",
            "generation": 1,
            "containers": {"main": [share]},
        }
        found[GPUS_ANNOTATION] = json.dumps({"v": 1, **placed})
    return pod(
        name,
        uid=uid,
        node=(node or "n1") if share else node,
        phase=phase,
        annotations=found,
        labels=labels,
        containers=list(containers) or [share_container()],
    )


def sharing_topology(
    name: str,
    topology: NodeTopology,
    *,
    most_pods: int = 4,
    shares: Mapping[str, str] | None = None,
    faults: Mapping[int, str] | None = None,
    served: Mapping[int, str] | None = None,
    conditions: Iterable[Document] = (),
    generation: int = 1,
    unhealthy: Iterable[int] = (),
    used_by: Mapping[int, str] | None = None,
) -> Document:
    """Return a GPUTopology of a node that offers shares.

    Args:
        name: name of the node.
        topology: its GPUs.
        most_pods: most pods on one GPU.
        shares: UID of the pod that uses each share, by device ID.
        faults: why GPUs take no sharing pods, by index.
        served: why no pod can get GPUs as a whole, by index.
        conditions: conditions of the status.
        generation: generation of the object.
        unhealthy: indices of unhealthy GPUs.
        used_by: UIDs of the pods that use whole GPUs, by index.
    """
    document = topology_object(
        name, topology, generation=generation, unhealthy=unhealthy, used_by=used_by
    )
    document["status"]["sharing"] = {"maxPodsPerGPU": most_pods}
    for index, gpu in enumerate(document["status"]["gpus"]):
        own = [
            {"id": share, "podUID": uid, "namespace": "default", "pod": uid, "container": "main"}
            for share, uid in (shares or {}).items()
            if share.startswith(f"{gpu['uuid']}::")
        ]
        if own:
            first = {key: value for key, value in own[0].items() if key != "id"}
            gpu.update({**first, **gpu, "shares": own})
        if index in (faults or {}):
            gpu["sharingFault"] = (faults or {})[index]
        if index in (served or {}):
            gpu["wholeFault"] = (served or {})[index]
    if conditions:
        document["status"]["conditions"] = [*conditions]
    return document
