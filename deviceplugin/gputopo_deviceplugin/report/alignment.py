"""Describes how kubelet takes NUMA nodes, for ``GPUTopology.status.alignment``. No I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gputopo.alignment.model import ManagerPolicy, ManagerScope
from gputopo.api.alignment import KubeletAlignment, NumaCpus
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.numa_report import KubeletCpus
from gputopo_deviceplugin.admit.placement import PlacementError, intended_gpus
from gputopo_deviceplugin.kubelet.numa_rule import TopologyPolicy
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.report.released import ReleasedGpus
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView

_LONGEST_UID: Final = 64


def kubelet_alignment(
    policy: TopologyPolicy,
    listed: Sequence[ListedPod],
    pods: Mapping[ObjectKey, PodView],
    *,
    cpus: KubeletCpus,
) -> KubeletAlignment:
    """Return what the extender needs to predict kubelet.

    Args:
        policy: policy and scope of kubelet.
        listed: kubelet's pod-resources list.
        pods: the pods of the node as the API server knows them.
        cpus: the CPUs of the node.
    """
    taken = frozenset[int]().union(*(cpus for entry in listed for cpus in entry.cpus.values()))
    of_nodes = None
    if policy.exclusive_cpus:
        of_nodes = [
            NumaCpus(
                numa_node=node,
                total=len(online),
                allocatable=len(online & cpus.allocatable),
                free=len((online & cpus.allocatable) - taken),
            )
            for node, online in sorted(cpus.online.items())
        ]
    return KubeletAlignment(
        policy=ManagerPolicy(policy.name or "none"),
        scope=ManagerScope(policy.scope),
        cpus=of_nodes,
        admitted=sorted(_admitted(policy, listed, pods)),
    )


class AlignmentReport(NamedTuple):
    """What the agent reports about the NUMA nodes of GPUs to the extender and to kubelet.

    Attributes:
        alignment: for the status of the GPUTopology.
        hidden: GPUs of which kubelet gets no NUMA node.
        stable: whether kubelet has admitted all bound pods and released all others.
    """

    alignment: KubeletAlignment
    hidden: frozenset[GpuUuid]
    stable: bool


def alignment_report(
    found: KubeletAlignment,
    released: ReleasedGpus,
    *,
    bound: frozenset[str],
    used: frozenset[GpuUuid],
    now: float,
) -> AlignmentReport:
    """Return the report for what kubelet's list shows now.

    Args:
        found: the alignment, with the pods that have GPUs in kubelet's list.
        released: what was reported before; it is updated.
        bound: UIDs of the live pods with GPUs that are bound to the node.
        used: GPUs in use, and GPUs that no pod may get.
        now: a monotonic time in seconds.
    """
    shown = released.update(frozenset(found.admitted), bound, used, now)
    alignment = found.model_copy(update={"admitted": sorted(shown)})
    return AlignmentReport(alignment, released.hidden, shown == bound)


def bound_pods(pods: Iterable[PodView], node: str) -> frozenset[str]:
    """Return the UIDs of the live pods with GPUs that are bound to ``node``."""
    return frozenset(pod.uid for pod in pods if pod.live and pod.node == node and pod.containers)


def _admitted(
    policy: TopologyPolicy, listed: Sequence[ListedPod], pods: Mapping[ObjectKey, PodView]
) -> Iterator[str]:
    """Yield the UIDs of the pods that have all of their GPUs and exclusive CPUs.

    A pod that has ended is among them until kubelet releases its devices, which may be a second
    after the pod's end. A deleted pod of unknown UID has its name instead.
    """
    for entry in listed:
        pod = pods.get(entry.key)
        if pod is not None and pod.live:
            if pod.containers and _is_complete(policy, entry, pod):
                yield pod.uid
        elif any(entry.containers.values()):
            yield str(entry.key)[:_LONGEST_UID] if pod is None else pod.uid


def _is_complete(policy: TopologyPolicy, entry: ListedPod, pod: PodView) -> bool:
    """Return whether the entry has the GPUs of this pod, not of a former pod, and all CPUs."""
    with_cpus = {each.name for each in pod.exclusive if each.cpus and policy.exclusive_cpus}
    # kubelet never lists ordinary init containers.
    if not with_cpus & entry.containers.keys() <= entry.cpus.keys():
        return False
    try:
        intended = intended_gpus(pod, str(pod.node))
    except PlacementError:
        return False
    names = [each.name for each in pod.gpu_keepers]
    return all(entry.containers.get(name) == frozenset(intended.get(name, ())) for name in names)
