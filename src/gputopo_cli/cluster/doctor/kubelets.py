"""Check that no kubelet rejects pods after the scheduler has chosen their GPUs."""

from collections.abc import Iterator
from typing import Final

from gputopo_cli.cluster.doctor.model import CheckedCluster, Finding, ObjectKind, warning
from gputopo_kube.document import Document

_REJECTING: Final = frozenset({"restricted", "single-numa-node"})
"""Policies with which kubelet's topology manager rejects pods.

The GPUs are never the reason, because the agent does not report their NUMA nodes to kubelet.
"""


def check_kubelets(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield kubelets that do not respond, or may reject a pod after its GPUs were chosen."""
    for kubelet in snapshot[ObjectKind.KUBELETS]:
        name, config = kubelet["name"], kubelet.get("kubeletconfig")
        if not isinstance(config, dict):
            reason = kubelet.get("error", "the response has no kubeletconfig")
            problem = f"kubelet does not return its configuration: {reason}"
            todo = f"kubectl get --raw /api/v1/nodes/{name}/proxy/configz"
            yield warning(f"Node {name}", problem, todo)
        elif config.get("topologyManagerPolicy") in _REJECTING:
            todo = (
                "keep this policy if you need it; otherwise set topologyManagerPolicy to"
                " best-effort, with which kubelet rejects no pod"
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
        f"kubelet's topologyManagerPolicy is {config['topologyManagerPolicy']}: after the GPUs of"
        f" a pod were chosen, kubelet may reject it because of its"
        f" {' and '.join(aligned) or 'other devices'}, but never because of its GPUs"
    )
