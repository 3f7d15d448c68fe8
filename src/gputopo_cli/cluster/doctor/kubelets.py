"""Check that kubelet neither rejects pods nor chooses other GPUs after their GPUs were chosen.

Also check that agents limit containers to the CPUs near their GPUs, if they are to do that.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gputopo.api.model import Condition
from gputopo.api.names import CPUS_BOUND_CONDITION, NUMA_PUBLISHED_CONDITION
from gputopo_cli.cluster.doctor.model import CheckedCluster, Finding, ObjectKind, error, warning
from gputopo_cluster.topologies import PublishedNode, parse_published_node
from gputopo_kube.document import Document

_REJECTING: Final = frozenset({"restricted", "single-numa-node"})
"""Policies with which kubelet's topology manager rejects pods.

The GPUs are never the reason, because with these policies the agent does not report their NUMA
nodes to kubelet.
"""

_PREDICTED: Final = "PolicyPredicted"
"""Reason of the condition if the extender chooses only GPUs that kubelet accepts."""

_GUIDE: Final = "docs/operate/numa.md"


def check_kubelets(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield kubelets that do not respond, or may reject a pod after its GPUs were chosen."""
    nodes = [parse_published_node(each) for each in snapshot[ObjectKind.TOPOLOGIES]]
    published = {node.name: node.conditions.get(NUMA_PUBLISHED_CONDITION) for node in nodes}
    predicted = {name for name, it in published.items() if it and it.reason == _PREDICTED}
    for kubelet in snapshot[ObjectKind.KUBELETS]:
        name, config = kubelet["name"], kubelet.get("kubeletconfig")
        if not isinstance(config, dict):
            reason = kubelet.get("error", "the response has no kubeletconfig")
            problem = f"kubelet does not return its configuration: {reason}"
            todo = f"kubectl get --raw /api/v1/nodes/{name}/proxy/configz"
            yield warning(f"Node {name}", problem, todo)
        elif config.get("topologyManagerPolicy") in _REJECTING and name not in predicted:
            todo = (
                "keep this policy if you need it; otherwise set topologyManagerPolicy to"
                " best-effort, with which kubelet rejects no pod"
            )
            yield warning(f"Node {name}", _describe_rejection(config), todo)
    yield from _check_numa(published, _policies(snapshot))
    yield from _check_cpus(nodes)


def _policies(snapshot: CheckedCluster) -> Mapping[str, str]:
    """Return the topologyManagerPolicy of each node whose kubelet returned a configuration."""
    configs = {each["name"]: each.get("kubeletconfig") for each in snapshot[ObjectKind.KUBELETS]}
    return {
        name: config.get("topologyManagerPolicy") or "none"
        for name, config in configs.items()
        if isinstance(config, dict)
    }


def _check_numa(
    published: Mapping[str, Condition | None], policies: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield nodes whose agent reports NUMA nodes wrongly, or does not know the policy."""
    for name, condition in published.items():
        policy = policies.get(name, "none")
        if condition is None or condition.reason == _PREDICTED:
            continue
        if condition.status == "True" and policy != "none":
            problem = (
                f"the agent reports the NUMA nodes of the GPUs to a kubelet with"
                f" topologyManagerPolicy {policy}: kubelet chooses GPUs by NUMA node, and the agent"
                " rejects pods with other GPUs than chosen"
            )
            yield error(f"Node {name}", problem, f"restart the agent of {name}")
        elif condition.reason in {"PolicyUnknown", "PolicyNotPredicted"}:
            yield _unknown_policy(name, condition)


def _unknown_policy(name: str, condition: Condition) -> Finding:
    problem = f"the NUMA nodes of the GPUs are not reported to kubelet: {condition.message}"
    todo = f"see {_GUIDE}, or set devicePlugin.numa.publish: Never"
    return warning(f"GPUTopology {name}", problem, todo)


def _check_cpus(nodes: Iterable[PublishedNode]) -> Iterator[Finding]:
    """Yield nodes whose agent cannot limit containers to the CPUs near their GPUs."""
    for node in nodes:
        condition = node.conditions.get(CPUS_BOUND_CONDITION)
        if condition is None or condition.reason not in {"NRIUnavailable", "CPUManagerUnknown"}:
            continue
        problem = f"containers are not limited to the CPUs near their GPUs: {condition.message}"
        todo = f"see {_GUIDE}, or set devicePlugin.nri.enabled: false"
        yield warning(f"GPUTopology {node.name}", problem, todo)


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
