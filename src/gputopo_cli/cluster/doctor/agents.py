"""Check that GPU nodes have an agent, and that kubelet and agent count equally many GPUs."""

from collections.abc import Iterator, Mapping
from typing import Final

from gputopo.api.resource_names import matches_any
from gputopo_cli.cluster.doctor import installed
from gputopo_cli.cluster.doctor.model import (
    CheckedCluster,
    Finding,
    ObjectKind,
    error,
    object_name,
    warning,
)
from gputopo_cli.cluster.doctor.nodes import is_ready, offers, resource_amount
from gputopo_cluster.topologies import PublishedNode, parse_published_node
from gputopo_kube.document import Document

_DISCOVERED: Final = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
"""Labels that other programs set on nodes with NVIDIA GPUs."""


def check_agents(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield the findings about agents.

    These are nodes without a ready agent, invalid GPUTopologies, unhealthy GPUs, and nodes whose
    kubelet and agent report different numbers of GPUs.
    """
    nodes = {node["metadata"]["name"]: node for node in snapshot[ObjectKind.NODES]}
    published = {
        each.name: each for each in map(parse_published_node, snapshot[ObjectKind.TOPOLOGIES])
    }
    resource = installed.gpu_resource(snapshot)
    pods = _agent_of(snapshot)
    for name in sorted({*published, *_with_gpus(snapshot)}):
        found = (
            _missing_agent(name, nodes.get(name), pods.get(name))
            or _bad_topology(name, published.get(name), pods[name])
            or _different_count(nodes[name], published[name], resource)
        )
        if found is not None:
            yield found
    for node in published.values():
        healthy = node.conditions.get("GPUsHealthy")
        if healthy is not None and healthy.status != "True":
            yield warning(
                f"GPUTopology {node.name}",
                f"GPUs are unhealthy: {healthy.message}",
                f"look for Xid in the kernel log of {node.name}, and at `nvidia-smi -q` there",
            )


def _agent_of(snapshot: CheckedCluster) -> Mapping[str, Document]:
    """Return the agent pod of each node. If a node has several, return a ready agent pod."""
    pods = installed.find_parts(snapshot, ObjectKind.PODS, "deviceplugin")
    return {pod["spec"].get("nodeName", ""): pod for pod in sorted(pods, key=is_ready)}


def _with_gpus(snapshot: CheckedCluster) -> Iterator[str]:
    """Yield the names of the nodes on which an agent must run.

    These nodes offer gputopo's resource, or have NVIDIA GPUs but no competing device plugin.
    """
    resource = installed.gpu_resource(snapshot)
    competitors = installed.competitors(snapshot)
    for node in snapshot[ObjectKind.NODES]:
        names = (node.get("status") or {}).get("allocatable") or {}
        served_by_others = any(
            matches_any(name, competitors) and offers(node, name) for name in names
        )
        discovered = any(installed.labels(node).get(label) == "true" for label in _DISCOVERED)
        if offers(node, resource) or (discovered and not served_by_others):
            yield node["metadata"]["name"]


def _missing_agent(name: str, node: Document | None, pod: Document | None) -> Finding | None:
    if node is None:
        problem = "there is no Node of this name, so no agent updates this object"
        return warning(f"GPUTopology {name}", problem, f"kubectl delete gputopology {name}")
    if not is_ready(node):
        problem = "is not ready, so the state of its GPUs is unknown"
        return error(f"Node {name}", problem, f"kubectl describe node {name}")
    if pod is None:
        problem = "no agent runs on this node, so its GPUTopology is missing or out of date"
        todo = (
            "compare `kubectl describe daemonset -A -l app.kubernetes.io/component=deviceplugin`"
            f" with labels and taints of `kubectl describe node {name}`"
        )
        return error(f"Node {name}", problem, todo)
    if not is_ready(pod):
        return error(
            object_name("Pod", pod),
            f"the agent of {name} is not ready{_waiting_reason(pod)}",
            _logs(pod),
        )
    return None


def _bad_topology(name: str, node: PublishedNode | None, pod: Document) -> Finding | None:
    where, todo = f"GPUTopology {name}", _logs(pod)
    if node is None:
        return error(where, "is missing, so the scheduler sees no GPU of this node", todo)
    if node.fault is not None:
        again = f"kubectl delete gputopology {name} (its agent creates it again); else {todo}"
        return error(where, f"is invalid: {node.fault}", again)
    ready = node.conditions.get("Ready")
    if ready is None or node.behind:
        return error(where, "its agent has not written the status since the spec was changed", todo)
    if ready.status != "True":
        return error(where, f"is not ready, {ready.reason}: {ready.message}", todo)
    return None


def _different_count(node: Document, published: PublishedNode, resource: str) -> Finding | None:
    healthy = sum(gpu.healthy for gpu in published.observed.values())
    counts = ("capacity", len(published.index_of), "GPUs"), ("allocatable", healthy, "healthy GPUs")
    for field, reported, gpus in counts:
        counted = resource_amount(node, field, resource)
        if counted != str(reported):
            name = published.name
            problem = (
                f"status.{field} of {resource} is {counted}, but the agent reports"
                f" {reported} {gpus}"
            )
            return error(f"Node {name}", problem, f"restart kubelet on {name}")
    return None


def _waiting_reason(pod: Document) -> str:
    status = pod.get("status") or {}
    for each in status.get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting")
        if waiting is not None:
            return f": {waiting.get('reason', 'waiting')}"
    return ""


def _logs(pod: Document) -> str:
    metadata = pod["metadata"]
    return f"kubectl -n {metadata['namespace']} logs {metadata['name']}"
