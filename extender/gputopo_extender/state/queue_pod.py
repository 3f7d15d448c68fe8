"""Parses pods and nodes into what kube-scheduler counts and queues, for the nominator.

All amounts are thousandths of the unit of the resource. ``pods`` counts pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import orjson

from gputopo.api.avoid import known_avoid
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.node_match import node_rules, pod_rules
from gputopo_kube.podmodel import known_parts
from gputopo_kube.podrequests import counted_requests, thousandths
from gputopo_kube.pods import PodView, version_number
from gputopo_kube.podstatus import ENDED_PHASES, PodCondition

NOMINATOR: Final = "gputopo-nominator"
"""Field manager of the nominator's writes. It shows which nominations are from the nominator."""

_PODS: Final = "pods"
_ONE: Final = 1000
_NODE_OF_VOLUME: Final = frozenset({"persistentVolumeClaim", "ephemeral", "csi"})


@dataclass(frozen=True, slots=True)
class QueuePod:
    """A pod as kube-scheduler counts it and orders it in its queue.

    Attributes:
        node: the node to which the pod is bound; None if the pod is not bound.
        amounts: what kube-scheduler counts for the pod; empty for a pod that has ended.
        queued: whether the pod waits in the queue of the extender's kube-scheduler.
        tried: whether kube-scheduler has tried the pod without success.
        nominated: the nominated node of a waiting pod; None if there is none.
        ours: whether the nominator has written ``nominated``.
        simple: whether only GPUs, amounts, selectors and taints decide which node suits the pod.
        rules: node selector, affinity and tolerations of a waiting pod.
        kind: equal for waiting pods with equal rules and amounts.
        view: the fields that the other parts of the extender use; None if it requests no GPUs.
    """

    uid: str
    key: ObjectKey
    version: int
    priority: int = 0
    node: str | None = None
    amounts: Mapping[str, int] = field(default_factory=dict)
    queued: bool = False
    tried: bool = False
    nominated: str | None = None
    ours: bool = False
    simple: bool = False
    rules: Document = field(default_factory=dict)
    kind: bytes = b""
    view: PodView | None = None


@dataclass(frozen=True, slots=True)
class QueueNode:
    """A node as kube-scheduler counts it.

    Attributes:
        rules: labels and taints.
        allocatable: the amounts that pods can have.
    """

    name: str
    rules: Document
    allocatable: Mapping[str, int]

    @property
    def is_avoided(self) -> bool:
        """Whether a taint makes kube-scheduler prefer other nodes."""
        taints = self.rules["spec"].get("taints") or ()
        return any(taint.get("effect") == "PreferNoSchedule" for taint in taints)


def parse_queue_node(node: Document) -> QueueNode:
    """Return a node as kube-scheduler counts it."""
    amounts = thousandths((node.get("status") or {}).get("allocatable") or {})
    return QueueNode(node["metadata"]["name"], node_rules(node), amounts)


def parse_queue_pod(document: Document, view: PodView | None, scheduler: str) -> QueuePod:
    """Return a pod as kube-scheduler counts it.

    Args:
        document: the pod.
        view: its view; None if it requests no GPUs.
        scheduler: the pods with this ``schedulerName`` are in the queue.
    """
    metadata, spec = document["metadata"], document.get("spec") or {}
    status, node = document.get("status") or {}, spec.get("nodeName")
    pod = QueuePod(
        uid=metadata["uid"],
        key=ObjectKey.of(document),
        version=version_number(metadata.get("resourceVersion")),
        priority=spec.get("priority") or 0,
        node=node or None,
    )
    if status.get("phase") in ENDED_PHASES:
        return pod
    parsed = known_parts(document)
    pod = replace(pod, amounts={**counted_requests(parsed), _PODS: _ONE})
    return pod if node else _waiting(pod, document, parsed.status.unschedulable, view, scheduler)


def _waiting(
    pod: QueuePod,
    document: Document,
    unscheduled: PodCondition | None,
    view: PodView | None,
    scheduler: str,
) -> QueuePod:
    metadata, spec, status = document["metadata"], document["spec"], document.get("status") or {}
    rules = pod_rules(spec)
    nominated = status.get("nominatedNodeName") or None
    kind = orjson.dumps([rules, pod.amounts], option=orjson.OPT_SORT_KEYS)
    return replace(
        pod,
        queued=spec.get("schedulerName") == scheduler
        and not metadata.get("deletionTimestamp")
        and not spec.get("schedulingGates"),
        # The API server sets this reason once, and keeps it when the gates are removed.
        tried=unscheduled is not None and unscheduled.reason != "SchedulingGated",
        nominated=nominated,
        ours=nominated is not None and _is_ours(metadata.get("managedFields") or ()),
        simple=view is not None and _is_simple(spec, view),
        rules=rules,
        kind=kind,
        view=view,
    )


def _is_ours(managed: Iterable[Document]) -> bool:
    """Return whether the nominator has written the nominated node, and no client after it."""
    for each in managed:
        fields = (each.get("fieldsV1") or {}).get("f:status") or {}
        if each.get("manager") == NOMINATOR and "f:nominatedNodeName" in fields:
            return True
    return False


def _is_simple(spec: Document, view: PodView) -> bool:
    """Return False if other pods, preferences, volumes, devices or a group decide about nodes."""
    affinity = spec.get("affinity") or {}
    kinds = {kind for volume in spec.get("volumes") or () for kind in volume}
    ports = (
        port.get("hostPort")
        for part in ("containers", "initContainers")
        for container in spec.get(part) or ()
        for port in container.get("ports") or ()
    )
    obstacles = (
        view.prefers_nodes,
        view.grouped,
        view.shares,
        known_avoid(view.annotations),
        affinity.get("podAffinity"),
        affinity.get("podAntiAffinity"),
        kinds & _NODE_OF_VOLUME,
        *ports,
    )
    return not any(obstacles)
