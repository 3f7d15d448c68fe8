"""Check that the nodes of an installation that shares GPUs are ready for sharing pods."""

from collections.abc import Callable, Iterator

from gputopo.api.shares import share_resource
from gputopo.api.v1alpha1 import ObservedGpu
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
from gputopo_cli.cluster.doctor.nodes import offers
from gputopo_cluster.topologies import GpuNode, PublishedNode, parse_published_node
from gputopo_kube.document import Document
from gputopo_scheduling.sharing_state import BESIDE_NUMA

_DOCS = "docs/use/sharing.md"


def check_shares(snapshot: CheckedCluster) -> Iterator[Finding]:
    """Yield nodes that offer no shares, GPUs that take no sharing pods, and incomplete quotas.

    Without sharing in the installation, there is nothing to check.
    """
    topologies = snapshot[ObjectKind.TOPOLOGIES]
    reported = any((each.get("status") or {}).get("sharing") for each in topologies)
    if not reported and not installed.shares_gpus(snapshot):
        return
    resource = installed.gpu_resource(snapshot)
    nodes = {node["metadata"]["name"]: node for node in snapshot[ObjectKind.NODES]}
    for document in topologies:
        published = parse_published_node(document)
        if isinstance(published.gpus, GpuNode):
            yield from _of_node(published, published.gpus, nodes.get(published.name), resource)
    yield from _quotas(snapshot, resource)


def _of_node(
    published: PublishedNode, parsed: GpuNode, node: Document | None, resource: str
) -> Iterator[Finding]:
    where, name = f"Node {parsed.node}", share_resource(resource)
    if not parsed.most_pods_per_gpu:
        problem = "its agent offers no shares of GPUs, although sharing.enabled is true"
        todo = "wait until the agent of this version runs there; `gputopo doctor` shows versions"
        yield warning(where, problem, todo)
        return
    if parsed.numa is not None:
        todo = (
            "set devicePlugin.numa.enabled=false, or kubelet's topologyManagerPolicy to none; "
            "or request no shares on this node"
        )
        yield warning(where, BESIDE_NUMA, todo)
    faults = _by_fault(published, lambda gpu: gpu.sharing_fault)
    for fault, gpus in faults.items():
        problem = f"{join_names(gpus)}: no further pod can share the GPU: {fault}"
        yield error(where, problem, _todo(parsed))
    for fault, gpus in _by_fault(published, lambda gpu: gpu.whole_fault).items():
        problem = f"{join_names(gpus)}: no pod can get the whole GPU: {fault}"
        yield error(where, problem, _todo(parsed))
    if node is not None and not offers(node, name) and not faults:
        problem = f"offers no {name}, although its agent reports shares"
        yield error(where, problem, f"restart kubelet on {parsed.node}")


def _by_fault(
    node: PublishedNode, fault_of: Callable[[ObservedGpu], str | None]
) -> dict[str, list[str]]:
    """Return the GPUs that have a fault, by fault."""
    faults: dict[str, list[str]] = {}
    for uuid, gpu in node.observed.items():
        if fault := fault_of(gpu):
            faults.setdefault(fault, []).append(f"GPU {node.index_of.get(uuid, uuid)}")
    return faults


def _todo(parsed: GpuNode) -> str:
    return f"look at the log of the MPS component of {parsed.node}; {_DOCS}"


def _quotas(snapshot: CheckedCluster, resource: str) -> Iterator[Finding]:
    """Yield the ResourceQuotas that limit GPUs or shares, but not both."""
    whole, shares = f"requests.{resource}", f"requests.{share_resource(resource)}"
    for quota in snapshot[ObjectKind.QUOTAS]:
        hard = (quota.get("spec") or {}).get("hard") or {}
        if (whole in hard) != (shares in hard):
            limited, missing = (whole, shares) if whole in hard else (shares, whole)
            problem = f"limits {limited}, but not {missing}: users can exceed it with the other"
            namespace, name = quota["metadata"]["namespace"], quota["metadata"]["name"]
            todo = f"kubectl -n {namespace} edit resourcequota {name}: add {missing} to spec.hard"
            yield warning(object_name("ResourceQuota", quota), problem, todo)
