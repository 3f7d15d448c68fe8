"""Check the nodes with GPUs: agents, competing device plugins and kubelets."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gputopo.api.resource_names import matches_any
from gputopo_cli.cluster.doctor import installed
from gputopo_cli.cluster.doctor.model import (
    ClusterSnapshot,
    Finding,
    ObjectKind,
    error,
    join_names,
    object_name,
    warning,
)
from gputopo_cli.cluster.nodes import PublishedNode, parse_node
from gputopo_kube.document import Document

_DISCOVERED: Final = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
"""Labels with which other programs mark nodes with NVIDIA GPUs."""

_SOCKETS: Final = "/device-plugins"  # end of the path of kubelet's device-plugin sockets

_REJECTING: Final = frozenset({"restricted", "single-numa-node"})
"""Policies of the topology manager that reject pods, but never because of GPUs.

The agent reports no NUMA nodes of devices, so kubelet ignores GPUs under every policy.
"""


def agents(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Yield nodes whose agent is missing, does not report, or differs from kubelet."""
    nodes = {node["metadata"]["name"]: node for node in snapshot[ObjectKind.NODES]}
    published = {each.name: each for each in map(parse_node, snapshot[ObjectKind.TOPOLOGIES])}
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


def _agent_of(snapshot: ClusterSnapshot) -> Mapping[str, Document]:
    """Return the agent's pod of each node; of two pods, the ready one."""
    pods = installed.find_parts(snapshot, ObjectKind.PODS, "deviceplugin")
    return {pod["spec"].get("nodeName", ""): pod for pod in sorted(pods, key=_is_ready)}


def _with_gpus(snapshot: ClusterSnapshot) -> Iterator[str]:
    """Yield nodes that offer our resource, or have GPUs that no other plugin serves."""
    resource = installed.gpu_resource(snapshot)
    competitors = installed.competitors(snapshot)
    for node in snapshot[ObjectKind.NODES]:
        names = (node.get("status") or {}).get("allocatable") or {}
        served_by_others = any(
            matches_any(name, competitors) and _offered(node, name) for name in names
        )
        discovered = any(installed.labels(node).get(label) == "true" for label in _DISCOVERED)
        if _offered(node, resource) or (discovered and not served_by_others):
            yield node["metadata"]["name"]


def _missing_agent(name: str, node: Document | None, pod: Document | None) -> Finding | None:
    """Return why no agent reports on a node."""
    if node is None:
        problem = "there is no Node of this name: no agent updates it"
        return warning(f"GPUTopology {name}", problem, f"kubectl delete gputopology {name}")
    if not _is_ready(node):
        problem = "is not ready: the state of its GPUs is unknown"
        return error(f"Node {name}", problem, f"kubectl describe node {name}")
    if pod is None:
        problem = "no agent runs there: its GPUTopology is missing or out of date"
        todo = (
            "compare `kubectl describe daemonset -A -l app.kubernetes.io/component=deviceplugin`"
            f" with labels and taints of `kubectl describe node {name}`"
        )
        return error(f"Node {name}", problem, todo)
    if not _is_ready(pod):
        return error(
            object_name("Pod", pod),
            f"the agent of {name} is not ready{_waiting_reason(pod)}",
            _logs(pod),
        )
    return None


def _bad_topology(name: str, node: PublishedNode | None, pod: Document) -> Finding | None:
    """Return why the GPUTopology of a node is not valid."""
    where, todo = f"GPUTopology {name}", _logs(pod)
    if node is None:
        return error(where, "is missing: the scheduler sees no GPU of this node", todo)
    if node.fault is not None:
        again = f"kubectl delete gputopology {name} (its agent creates it again); else {todo}"
        return error(where, f"is invalid: {node.fault}", again)
    ready = node.conditions.get("Ready")
    if ready is None or node.behind:
        return error(where, "its status is not of the published topology", todo)
    if ready.status != "True":
        return error(where, f"is not ready, {ready.reason}: {ready.message}", todo)
    return None


def _different_count(node: Document, published: PublishedNode, resource: str) -> Finding | None:
    """Return whether kubelet has a different number of GPUs than the agent reports."""
    healthy = sum(gpu.healthy for gpu in published.observed.values())
    for part, wanted in (("capacity", len(published.index_of)), ("allocatable", healthy)):
        counted = _amount(node, part, resource)
        if counted != str(wanted):
            name = published.name
            problem = f"{part} of {resource} is {counted}, but its agent has published {wanted}"
            return error(f"Node {name}", problem, f"restart kubelet on {name}")
    return None


def competitors(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Yield plugins that serve the same GPUs as the agent: both may allocate one GPU."""
    resource = installed.gpu_resource(snapshot)
    known = installed.competitors(snapshot)
    ours = [node for node in snapshot[ObjectKind.NODES] if _offered(node, resource)]
    names = {node["metadata"]["name"] for node in ours}
    for node in ours:
        where = f"Node {node['metadata']['name']}"
        for other in sorted((node.get("status") or {}).get("allocatable") or {}):
            if other == resource or not _offered(node, other):
                continue
            problem = f"offers {_amount(node, 'allocatable', other)} {other} beside {resource}"
            if matches_any(other, known):
                todo = "run only one of both plugins there: docs/install.md, Beside NVIDIA's"
                yield error(where, f"{problem}: two plugins serve the same GPUs", todo)
            elif "gpu" in other.lower() or other.startswith("nvidia.com/"):
                todo = "add it to devicePlugin.competingResources if these are the same GPUs"
                yield warning(where, problem, todo)
    yield from _other_plugins(snapshot, names)


def _other_plugins(snapshot: ClusterSnapshot, nodes: set[str]) -> Iterator[Finding]:
    for daemon_set in snapshot[ObjectKind.DAEMON_SETS]:
        if installed.is_ours(daemon_set) or not _is_gpu_plugin(daemon_set):
            continue
        there = sorted(nodes & set(_nodes_of(snapshot, daemon_set)))
        if there:
            metadata = daemon_set["metadata"]
            edit = f"kubectl -n {metadata['namespace']} edit daemonset {metadata['name']}"
            problem = (
                f"another device plugin for GPUs runs on nodes of our agent: {join_names(there)}"
            )
            todo = f"{edit}: exclude these nodes by nodeSelector or affinity"
            yield warning(object_name("DaemonSet", daemon_set), problem, todo)


def _is_gpu_plugin(daemon_set: Document) -> bool:
    volumes = daemon_set["spec"]["template"]["spec"].get("volumes") or ()
    paths = [(volume.get("hostPath") or {}).get("path", "") for volume in volumes]
    images = [container["image"] for container in installed.containers(daemon_set)]
    words = " ".join([daemon_set["metadata"]["name"], *images]).lower()
    is_plugin = any(path.rstrip("/").endswith(_SOCKETS) for path in paths)
    return is_plugin and ("nvidia" in words or "gpu" in words)


def _nodes_of(snapshot: ClusterSnapshot, daemon_set: Document) -> Iterator[str]:
    uid = daemon_set["metadata"]["uid"]
    for pod in snapshot[ObjectKind.PODS]:
        owners = pod["metadata"].get("ownerReferences") or ()
        if any(owner["uid"] == uid for owner in owners):
            yield pod["spec"].get("nodeName", "")


def kubelets(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Yield kubelets that may reject pods after their GPUs were chosen, or do not respond."""
    for kubelet in snapshot[ObjectKind.KUBELETS]:
        name, config = kubelet["name"], kubelet.get("kubeletconfig")
        if not isinstance(config, dict):
            reason = kubelet.get("error", "the response has no kubeletconfig")
            problem = f"kubelet does not return its configuration: {reason}"
            todo = f"kubectl get --raw /api/v1/nodes/{name}/proxy/configz"
            yield warning(f"Node {name}", problem, todo)
        elif config.get("topologyManagerPolicy") in _REJECTING:
            todo = (
                "nothing, if this is intended; else set kubelet's topologyManagerPolicy to"
                " best-effort"
            )
            yield warning(f"Node {name}", _describe_rejection(config), todo)


def _describe_rejection(config: Document) -> str:
    aligned = [
        name
        for name, active in (
            ("CPUs", config.get("cpuManagerPolicy") == "static"),
            ("memory", config.get("memoryManagerPolicy") == "Static"),
        )
        if active
    ]
    return (
        f"kubelet's topologyManagerPolicy is {config['topologyManagerPolicy']}: it rejects pods"
        f" whose {' and '.join(aligned) or 'other devices'} do not fit, after their GPUs were"
        " chosen; GPUs are never the reason"
    )


def _is_ready(document: Document) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def ready_nodes(nodes: Iterable[Document]) -> set[str]:
    """Return the names of the ready nodes."""
    return {node["metadata"]["name"] for node in nodes if _is_ready(node)}


def _amount(node: Document, part: str, resource: str) -> str:
    return str(((node.get("status") or {}).get(part) or {}).get(resource, "0"))


def _offered(node: Document, resource: str) -> bool:
    return _amount(node, "allocatable", resource) != "0"


def _waiting_reason(pod: Document) -> str:
    """Return why a container of a pod waits; empty if that is unknown."""
    status = pod.get("status") or {}
    for each in status.get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting")
        if waiting is not None:
            return f": {waiting.get('reason', 'waiting')}"
    return ""


def _logs(pod: Document) -> str:
    metadata = pod["metadata"]
    return f"kubectl -n {metadata['namespace']} logs {metadata['name']}"
