"""Parses what the GPUTopology of a node reports of GPUs, pods and workloads."""

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gputopo.runtime.log import fields
from gputopo_cluster.topologies import GpuNode, UnreadableTopology, parse_gpu_node
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.measurements import parse_measured
from gputopo_operator.model.workloads import NodeReport, PodReport

CPUS: Final = "CPUs"

_log = logging.getLogger(__name__)


def parse_report(raw: Document) -> NodeReport:
    """Return what a GPUTopology reports; a part in the unknown format of an agent is left out."""
    gpus, measured = _gpu_node(raw), parse_measured(raw)
    used, status = _used(gpus), raw.get("status") or {}
    running: defaultdict[ObjectKey, set[str]] = defaultdict(set)
    for uid, found in measured.items():
        if found.profile is not None:
            running[ObjectKey(found.namespace, found.profile)].add(uid)
    return NodeReport(
        gpus=gpus,
        pods={uid: PodReport(used.get(uid, ()), measured.get(uid)) for uid in used | measured},
        running={key: frozenset(uids) for key, uids in running.items()},
        samples=_samples(_objects(status.get("samples"))),
        profiled=profiled_pods(status),
        sized_capacity=gpus.sized_capacity if isinstance(gpus, GpuNode) else None,
    )


def profiled_pods(status: Mapping[str, Any]) -> dict[ObjectKey, frozenset[str]]:
    """Return the pods in the status of a GPUTopology that request to measure CPUs.

    The value of each pod is a set of its UID and the times of its samples. A pod is new, or has a
    new sample, if this set has a new element.
    """
    samples = _objects(status.get("samples"))
    return {
        ObjectKey(str(each.get("namespace", "")), str(each.get("pod", ""))): frozenset(
            (uid, *(str(it.get("time")) for it in samples if it.get("podUID") == uid))
        )
        for each in _objects(status.get("measurements"))
        if CPUS in (each.get("profiling") or ()) and isinstance(uid := each.get("podUID"), str)
    }


def _gpu_node(raw: Document) -> GpuNode | UnreadableTopology:
    node = parse_gpu_node(raw)
    if isinstance(node, UnreadableTopology):
        _log.warning(
            "GPUTopology not valid: no GPU of the node is used; upgrade its agent %s",
            fields(node=node.node, reason=node.reason),
        )
    return node


def _used(node: GpuNode | UnreadableTopology) -> dict[str, tuple[str, ...]]:
    """Return the GPUs of each pod, or its share of a GPU, by UID of the pod."""
    used: dict[str, tuple[str, ...]] = {}
    if isinstance(node, UnreadableTopology):
        return used
    for user in node.users:
        if user.uid is not None:
            device = user.share or node.topology.uuid_of[user.gpu]
            used[user.uid] = (*used.get(user.uid, ()), device)
    return used


def _samples(samples: Iterable[Document]) -> dict[ObjectKey, tuple[str, ...]]:
    found: defaultdict[ObjectKey, list[str]] = defaultdict(list)
    for each in samples:
        namespace, profile = each.get("namespace"), each.get("profile")
        if isinstance(namespace, str) and isinstance(profile, str):
            found[ObjectKey(namespace, profile)].append(json.dumps(each, separators=(",", ":")))
    return {key: tuple(texts) for key, texts in found.items()}


def _objects(items: object) -> list[Document]:
    """Return the JSON objects of a list; an item in an unknown format is left out."""
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
