"""Objects of a cluster for explanations: nodes with CPUs, pods with owners and times."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gputopo.catalogue import named
from gputopo.topology.model import NodeTopology
from gputopo_explain.objects import ClusterObjects, LiveKind
from support.builders.clusters import annotated
from support.builders.objects import Document, pod, topology_object

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STARTED = "2026-01-01T11:00:00Z"


def dgx(node: str) -> NodeTopology:
    """Return a node with 8 GPUs."""
    return named("dgx1-v100", node=node)


def kube_node(
    name: str,
    *,
    cpu: str = "64",
    gpus: str = "8",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Document] = (),
    unschedulable: bool = False,
) -> Document:
    """Return a Node."""
    spec: Document = {"taints": [*taints]} | ({"unschedulable": True} if unschedulable else {})
    allocatable = {"cpu": cpu, "memory": "256Gi", "pods": "110", "gputopo.io/gpu": gpus}
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def gpu_user(
    name: str,
    node: str,
    first: int,
    count: int,
    *,
    priority: int = 0,
    cpu: str = "",
    started: str | None = STARTED,
    of: NodeTopology | None = None,
    **fields: Any,
) -> Document:
    """Return a running pod that has ``count`` GPUs of a node, from index ``first``."""
    gpus = (of or dgx(node)).gpus[first : first + count]
    annotations = annotated(f"uid-{name}", node, [gpu.uuid for gpu in gpus])
    document = pod(name, count, node=node, phase="Running", annotations=annotations)
    document["spec"] |= {"priority": priority, **fields}
    if cpu:
        document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    if started:
        document["status"]["startTime"] = started
    return document


def owned(document: Document, kind: str, name: str, uid: str = "") -> Document:
    """Return the pod with a controller; a Job has the label of its GPUJob."""
    owner = {"kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}
    metadata = {**document["metadata"], "ownerReferences": [owner]}
    if kind == "Job":
        metadata["labels"] = {"gputopo.io/job": name}
    return {**document, "metadata": metadata}


def with_cpu(document: Document, cpu: str) -> Document:
    """Return the pod with a CPU request in its first container."""
    document["spec"]["containers"][0].setdefault("resources", {}).setdefault("requests", {})[
        "cpu"
    ] = cpu
    return document


def cluster(
    pods: Iterable[Document] = (),
    *,
    nodes: Iterable[str] = ("n1", "n2"),
    topologies: Iterable[Document] | None = None,
    kube_nodes: Iterable[Document] | None = None,
    unread: Mapping[LiveKind, str] | None = None,
    namespace: str | None = None,
    **others: Iterable[Document],
) -> ClusterObjects:
    """Return the objects of a cluster of nodes with 8 GPUs."""
    names = [*nodes]
    documents = {
        LiveKind.TOPOLOGIES: [topology_object(name, dgx(name)) for name in names]
        if topologies is None
        else [*topologies],
        LiveKind.PODS: [*pods],
        LiveKind.NODES: [kube_node(name) for name in names]
        if kube_nodes is None
        else [*kube_nodes],
        LiveKind.DEPLOYMENTS: [installed()],
        **{LiveKind[kind.upper()]: [*items] for kind, items in others.items()},
    }
    kept = {kind: items for kind, items in documents.items() if kind not in (unread or {})}
    return ClusterObjects(kept, NOW, unread or {}, namespace=namespace)


def installed(*arguments: str) -> Document:
    """Return a Deployment of the chart whose container has these arguments."""
    return {
        "metadata": {
            "namespace": "gputopo-system",
            "name": "gputopo-scheduler",
            "labels": {"app.kubernetes.io/part-of": "gputopo"},
        },
        "spec": {"template": {"spec": {"containers": [{"args": [*arguments]}]}}},
    }
