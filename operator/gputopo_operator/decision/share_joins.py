"""Finds the shared GPUs that jobs of the queue may join, by the evaluation of the extender."""

from collections.abc import Hashable, Iterator, Mapping

from gputopo.queueing.model import JoinableGpu
from gputopo.topology.model import GpuMask, indices_of, mask_of
from gputopo_cluster.picture import ClusterPicture
from gputopo_cluster.usage import NodeUsage
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView
from gputopo_kube.workload import workload_name
from gputopo_scheduling.restrictions import AvoidingPod, avoid_restriction
from gputopo_scheduling.share_options import share_options
from gputopo_scheduling.sharing_knowledge import SharingKnowledge, sharing_limits

_Allowed = list[tuple[NodeUsage, str, GpuMask]]


def shared_gpus_to_join(
    waiting: Mapping[ObjectKey, PodView],
    cluster: ClusterPicture,
    knowledge: SharingKnowledge,
) -> dict[ObjectKey, frozenset[JoinableGpu]]:
    """Return the shared GPUs that each pod may join now.

    Many jobs have equal workloads and limits, so each GPU is evaluated once for each of them.

    Args:
        waiting: the pod that each job would create, or has created; it is not bound.
        cluster: the GPUs of the nodes and their pods.
        knowledge: settings and measured facts.
    """
    usages = dict(_shared_nodes(cluster))
    known: dict[Hashable, _Allowed] = {}
    found = {}
    for key, pod in waiting.items():
        kind = workload_name(pod), sharing_limits(pod)
        if kind not in known:
            known[kind] = [*_allowed(usages, pod, knowledge)]
        found[key] = frozenset(_permitted(known[kind], pod))
    return found


def _shared_nodes(cluster: ClusterPicture) -> Iterator[tuple[str, NodeUsage]]:
    """Yield the nodes that take sharing pods and have shared GPUs."""
    for name, usage in cluster.usages.items():
        if not isinstance(usage, NodeUsage) or usage.blocked is not None:
            continue
        takes = usage.most_pods_per_gpu and usage.numa is None and usage.not_ready is None
        if takes and usage.shares:
            yield name, usage


def _allowed(
    usages: Mapping[str, NodeUsage], pod: PodView, knowledge: SharingKnowledge
) -> Iterator[tuple[NodeUsage, str, GpuMask]]:
    """Yield the GPUs of each node beside whose pods a workload may run."""
    for name, usage in usages.items():
        options = share_options(usage, pod, knowledge)
        gpus = mask_of(option.gpu for option in options if option.reason is None)
        if gpus:
            yield usage, name, gpus


def _permitted(allowed: _Allowed, pod: PodView) -> Iterator[JoinableGpu]:
    """Yield the GPUs that are not beside pods to avoid."""
    avoiding = AvoidingPod.of(pod)
    for usage, name, gpus in allowed:
        barred = avoid_restriction(usage.topology, usage.occupants, avoiding)
        for gpu in indices_of(GpuMask(gpus & ~(barred.gpus if barred else 0))):
            yield JoinableGpu(name, usage.topology.uuid_of[gpu])
