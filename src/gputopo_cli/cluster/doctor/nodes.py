"""Checks of the nodes with GPUs: their agents, other plugins beside them, and their kubelets."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gputopo.api.resource_names import matches_any
from gputopo_cli.cluster.doctor import installed
from gputopo_cli.cluster.doctor.model import (
    Finding,
    Kind,
    Snapshot,
    error,
    named,
    titled,
    warning,
)
from gputopo_cli.cluster.nodes import Node, node_of
from gputopo_kube.document import Document

_DISCOVERED: Final = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
"""Labels by which others say that a node has NVIDIA GPUs."""

_SOCKETS: Final = "/device-plugins"
"""Where kubelet's folder of device-plugin sockets ends."""

_REJECTING: Final = frozenset({"restricted", "single-numa-node"})
"""Policies of the topology manager that reject pods, but never because of GPUs: the agent
publishes no NUMA nodes of devices, so kubelet leaves the GPUs out under every policy."""


def agents(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield nodes whose agent is missing, silent, behind or contradicted by kubelet."""
    nodes = {node["metadata"]["name"]: node for node in snapshot[Kind.NODES]}
    published = {each.name: each for each in map(node_of, snapshot[Kind.TOPOLOGIES])}
    resource = installed.resource(snapshot)
    pods = _agent_of(snapshot)
    for name in sorted({*published, *_with_gpus(snapshot)}):
        found = (
            _absence(name, nodes.get(name), pods.get(name))
            or _silence(name, published.get(name), pods[name])
            or _miscount(nodes[name], published[name], resource)
        )
        if found is not None:
            yield found
    for node in published.values():
        sick = node.conditions.get("GPUsHealthy")
        if sick is not None and sick.status != "True":
            yield warning(
                f"GPUTopology {node.name}",
                f"GPUs are unhealthy: {sick.message}",
                f"look for Xid in the kernel log of {node.name}, and at `nvidia-smi -q` there",
            )


def _agent_of(snapshot: Snapshot) -> Mapping[str, Document]:
    """Return the agent's pod of each node; the one that is ready where there are two."""
    pods = installed.parts(snapshot, Kind.PODS, "deviceplugin")
    return {pod["spec"].get("nodeName", ""): pod for pod in sorted(pods, key=_is_ready)}


def _with_gpus(snapshot: Snapshot) -> Iterator[str]:
    """Yield nodes that offer our resource, or that have GPUs which nobody else serves."""
    resource = installed.resource(snapshot)
    competitors = installed.competitors(snapshot)
    for node in snapshot[Kind.NODES]:
        names = (node.get("status") or {}).get("allocatable") or {}
        served_by_others = any(
            matches_any(name, competitors) and _offered(node, name) for name in names
        )
        discovered = any(installed.labels(node).get(label) == "true" for label in _DISCOVERED)
        if _offered(node, resource) or (discovered and not served_by_others):
            yield node["metadata"]["name"]


def _absence(name: str, node: Document | None, pod: Document | None) -> Finding | None:
    """Return why no agent can speak for a node."""
    if node is None:
        problem = "there is no Node of this name: nobody keeps it up to date"
        return warning(f"GPUTopology {name}", problem, f"kubectl delete gputopology {name}")
    if not _is_ready(node):
        problem = "is not ready: nothing of its GPUs is known"
        return error(f"Node {name}", problem, f"kubectl describe node {name}")
    if pod is None:
        problem = "no agent runs there: what is published of its GPUs is old, if anything is"
        todo = (
            "compare `kubectl describe daemonset -A -l app.kubernetes.io/component=deviceplugin`"
            f" with labels and taints of `kubectl describe node {name}`"
        )
        return error(f"Node {name}", problem, todo)
    if not _is_ready(pod):
        return error(titled("Pod", pod), f"the agent of {name} is not ready{_why(pod)}", _logs(pod))
    return None


def _silence(name: str, node: Node | None, pod: Document) -> Finding | None:
    """Return why what an agent has published cannot be relied on."""
    where, todo = f"GPUTopology {name}", _logs(pod)
    if node is None:
        return error(where, "is missing: the scheduler sees no GPU of this node", todo)
    if node.fault is not None:
        again = f"kubectl delete gputopology {name} (its agent writes it anew); else {todo}"
        return error(where, f"cannot be read: {node.fault}", again)
    ready = node.conditions.get("Ready")
    if ready is None or node.behind:
        return error(where, "its agent has not reported on the topology that is published", todo)
    if ready.status != "True":
        return error(where, f"is not ready, {ready.reason}: {ready.message}", todo)
    return None


def _miscount(node: Document, published: Node, resource: str) -> Finding | None:
    """Return where kubelet counts other GPUs than the agent."""
    healthy = sum(gpu.healthy for gpu in published.observed.values())
    for part, wanted in (("capacity", len(published.index_of)), ("allocatable", healthy)):
        counted = _amount(node, part, resource)
        if counted != str(wanted):
            name = published.name
            problem = f"{part} of {resource} is {counted}, and its agent has published {wanted}"
            return error(f"Node {name}", problem, f"restart kubelet on {name}")
    return None


def competitors(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what serves the same GPUs beside the agent, so that both may give out one GPU."""
    resource = installed.resource(snapshot)
    known = installed.competitors(snapshot)
    ours = [node for node in snapshot[Kind.NODES] if _offered(node, resource)]
    names = {node["metadata"]["name"] for node in ours}
    for node in ours:
        where = f"Node {node['metadata']['name']}"
        for other in sorted((node.get("status") or {}).get("allocatable") or {}):
            if other == resource or not _offered(node, other):
                continue
            problem = f"offers {_amount(node, 'allocatable', other)} {other} beside {resource}"
            if matches_any(other, known):
                todo = "keep one of both plugins off it: docs/install.md, Beside NVIDIA's"
                yield error(where, f"{problem}: the same GPUs twice", todo)
            elif "gpu" in other.lower() or other.startswith("nvidia.com/"):
                todo = "name it in devicePlugin.competingResources if these are the same GPUs"
                yield warning(where, problem, todo)
    yield from _other_plugins(snapshot, names)


def _other_plugins(snapshot: Snapshot, nodes: set[str]) -> Iterator[Finding]:
    for daemon_set in snapshot[Kind.DAEMON_SETS]:
        if installed.is_ours(daemon_set) or not _is_gpu_plugin(daemon_set):
            continue
        there = sorted(nodes & set(_nodes_of(snapshot, daemon_set)))
        if there:
            metadata = daemon_set["metadata"]
            edit = f"kubectl -n {metadata['namespace']} edit daemonset {metadata['name']}"
            problem = f"another plugin for GPUs runs beside our agent, on {named(there)}"
            todo = f"{edit}: keep it off there by nodeSelector or affinity"
            yield warning(titled("DaemonSet", daemon_set), problem, todo)


def _is_gpu_plugin(daemon_set: Document) -> bool:
    volumes = daemon_set["spec"]["template"]["spec"].get("volumes") or ()
    paths = [(volume.get("hostPath") or {}).get("path", "") for volume in volumes]
    images = [container["image"] for container in installed.containers(daemon_set)]
    words = " ".join([daemon_set["metadata"]["name"], *images]).lower()
    is_plugin = any(path.rstrip("/").endswith(_SOCKETS) for path in paths)
    return is_plugin and ("nvidia" in words or "gpu" in words)


def _nodes_of(snapshot: Snapshot, daemon_set: Document) -> Iterator[str]:
    uid = daemon_set["metadata"]["uid"]
    for pod in snapshot[Kind.PODS]:
        owners = pod["metadata"].get("ownerReferences") or ()
        if any(owner["uid"] == uid for owner in owners):
            yield pod["spec"].get("nodeName", "")


def kubelets(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield kubelets that may reject pods after their GPUs were chosen, or that do not answer."""
    for kubelet in snapshot[Kind.KUBELETS]:
        name, config = kubelet["name"], kubelet.get("kubeletconfig")
        if not isinstance(config, dict):
            why = kubelet.get("refused", "the answer has no kubeletconfig")
            problem = f"kubelet does not tell its configuration: {why}"
            todo = f"kubectl get --raw /api/v1/nodes/{name}/proxy/configz"
            yield warning(f"Node {name}", problem, todo)
        elif config.get("topologyManagerPolicy") in _REJECTING:
            todo = (
                "nothing, where pods are to be rejected for that; else set kubelet's"
                " topologyManagerPolicy to best-effort"
            )
            yield warning(f"Node {name}", _rejection(config), todo)


def _rejection(config: Document) -> str:
    aligned = [
        what
        for what, on in (
            ("CPUs", config.get("cpuManagerPolicy") == "static"),
            ("memory", config.get("memoryManagerPolicy") == "Static"),
        )
        if on
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
    """Return the names of the nodes whose kubelet reports."""
    return {node["metadata"]["name"] for node in nodes if _is_ready(node)}


def _amount(node: Document, part: str, resource: str) -> str:
    return str(((node.get("status") or {}).get(part) or {}).get(resource, "0"))


def _offered(node: Document, resource: str) -> bool:
    return _amount(node, "allocatable", resource) != "0"


def _why(pod: Document) -> str:
    """Return why a pod does not run, as far as it says."""
    status = pod.get("status") or {}
    for each in status.get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting")
        if waiting is not None:
            return f": {waiting.get('reason', 'it waits')}"
    return ""


def _logs(pod: Document) -> str:
    metadata = pod["metadata"]
    return f"kubectl -n {metadata['namespace']} logs {metadata['name']}"
