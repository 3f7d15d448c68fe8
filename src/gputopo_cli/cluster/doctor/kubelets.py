"""Check that no kubelet rejects pods after their GPUs were chosen."""

from collections.abc import Iterator
from typing import Final

from gputopo_cli.cluster.doctor.model import ClusterSnapshot, Finding, ObjectKind, warning
from gputopo_kube.document import Document

_REJECTING: Final = frozenset({"restricted", "single-numa-node"})
"""Policies of the topology manager that reject pods, but never because of GPUs.

The agent reports no NUMA nodes of devices, so kubelet ignores GPUs under every policy.
"""


def check_kubelets(snapshot: ClusterSnapshot) -> Iterator[Finding]:
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
