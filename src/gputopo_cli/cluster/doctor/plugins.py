"""Check that no other device plugin serves the GPUs of an agent."""

from collections.abc import Iterator
from typing import Final

from gputopo.api.resource_names import matches_any
from gputopo.api.shares import share_resource
from gputopo_cli.cluster.doctor import installed
from gputopo_cli.cluster.doctor.model import (
    CheckedCluster,
    Finding,
    ObjectKind,
    error,
    join_names,
    object_name,
    warning,
)
from gputopo_cli.cluster.doctor.nodes import offers, resource_amount
from gputopo_kube.document import Document

_SOCKETS: Final = "/device-plugins"  # end of the path of kubelet's device-plugin sockets


def check_competitors(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield other device plugins that may allocate the same GPUs as gputopo's agent."""
    resource = installed.gpu_resource(snapshot)
    known = installed.competitors(snapshot)
    ours = [node for node in snapshot[ObjectKind.NODES] if offers(node, resource)]
    names = {node["metadata"]["name"] for node in ours}
    for node in ours:
        where = f"Node {node['metadata']['name']}"
        for other in sorted((node.get("status") or {}).get("allocatable") or {}):
            own = other in {resource, share_resource(resource)}
            if own or not offers(node, other):
                continue
            problem = (
                f"offers {resource_amount(node, 'allocatable', other)} {other} beside {resource}"
            )
            if matches_any(other, known):
                todo = (
                    "run only one of the two plugins there:"
                    " see docs/start/install.md, Beside NVIDIA's"
                )
                yield error(where, f"{problem}: two plugins serve the same GPUs", todo)
            elif "gpu" in other.lower() or other.startswith("nvidia.com/"):
                todo = f"if {other} has the same GPUs, add it to devicePlugin.competingResources"
                yield warning(where, problem, todo)
    yield from _other_plugins(snapshot, names)


def _other_plugins(snapshot: CheckedCluster, nodes: set[str]) -> Iterator[Finding]:
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


def _nodes_of(snapshot: CheckedCluster, daemon_set: Document) -> Iterator[str]:
    uid = daemon_set["metadata"]["uid"]
    for pod in snapshot[ObjectKind.PODS]:
        owners = pod["metadata"].get("ownerReferences") or ()
        if any(owner["uid"] == uid for owner in owners):
            yield pod["spec"].get("nodeName", "")
