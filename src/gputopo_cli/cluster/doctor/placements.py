"""Check that annotations are valid, and that pods have the GPUs that were chosen for them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from gputopo_cli.cluster.doctor.model import (
    CheckedCluster,
    Finding,
    ObjectKind,
    error,
    join_names,
    warning,
)
from gputopo_cluster.topologies import PublishedNode, parse_published_node
from gputopo_explain.placed_pods import parse_placed_pod
from gputopo_explain.uses import NO_GPUS, NO_POD, GpuUse, list_uses

_MAX_WAIT: Final = timedelta(minutes=1)
"""Time in which kubelet must admit a pod. This time does not include the pull of images."""


def check_placements(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield pods without the chosen GPUs, deleted pods that use GPUs, and pods not admitted."""
    nodes = [parse_published_node(document) for document in snapshot[ObjectKind.TOPOLOGIES]]
    found = list_uses(nodes, map(parse_placed_pod, snapshot[ObjectKind.PODS]))
    alike: dict[tuple[str, str, str], list[GpuUse]] = defaultdict(list)
    for use in found:
        if use.pod_name and use.difference:
            alike[use.pod_name, use.node, use.difference].append(use)
    for (pod, node, difference), together in alike.items():
        yield error(f"Pod {pod}", f"{_gpus(together)}{difference}", _todo(pod, node, difference))
    yield from _reported_by_agents(nodes, {node for _, node, _ in alike})
    yield from _deleted(found)
    yield from _late(found, snapshot.now)


def _gpus(together: Iterable[GpuUse]) -> str:
    """Return the GPUs as text: ``GPU 0, GPU 3 of its node: ``; empty if no GPU is known."""
    gpus = [f"GPU {use.uuid if use.index is None else use.index}" for use in together if use.uuid]
    return f"{join_names(gpus)} of its node: " if gpus else ""


def _todo(pod: str, node: str, difference: str) -> str:
    if difference == NO_POD:
        return f"restart kubelet on {node}, so that it removes the pod from its list"
    if difference == NO_GPUS:
        return f"kubectl get gputopology {node}: its agent must publish the GPUs first"
    namespace, _, name = pod.partition("/")
    return f"kubectl -n {namespace} delete pod {name} (its controller creates a new one)"


def _reported_by_agents(nodes: Iterable[PublishedNode], omit: set[str]) -> Iterator[Finding]:
    """Yield the nodes whose agent reports pods with wrong GPUs, except the nodes in ``omit``."""
    for node in nodes:
        condition = node.conditions.get("AllocationsAsPlaced")
        if condition is not None and condition.status != "True" and node.name not in omit:
            todo = "delete the pods that this message names: their controllers create new pods"
            yield error(f"GPUTopology {node.name}", condition.message, todo)


def _deleted(found: Iterable[GpuUse]) -> Iterator[Finding]:
    """Yield deleted pods whose processes still use GPUs."""
    users: dict[tuple[str, str], list[GpuUse]] = defaultdict(list)
    for use in found:
        if use.pod_name and use.pod_deleted:
            users[use.pod_name, use.node].append(use)
    for (pod, node), together in users.items():
        yield warning(
            f"Pod {pod}",
            f"{_gpus(together)}in use by a process, although this pod was deleted or has ended",
            f"wait until the process ends, or end it on {node}; before that no pod gets these GPUs",
        )


def _late(found: Iterable[GpuUse], now: datetime) -> Iterator[Finding]:
    waiting = {
        (use.pod_name, use.node, use.since)
        for use in found
        if use.pod_name and use.since and not use.observed and not use.difference
    }
    for pod, node, since in sorted(waiting):
        if now - datetime.fromisoformat(since) > _MAX_WAIT:
            namespace, _, name = pod.partition("/")
            todo = f"kubectl -n {namespace} describe pod {name}; check kubelet of {node}"
            yield warning(
                f"Pod {pod}", f"kubelet of {node} has not admitted this pod since {since}", todo
            )
