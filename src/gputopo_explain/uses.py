"""Compare the intended and the observed users of every GPU of a cluster."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from gputopo.api.names import GPUS_ANNOTATION
from gputopo.api.shares import conflicting, gpu_of, is_share
from gputopo.api.v1alpha1 import ObservedGpu, ObservedShare
from gputopo_cluster.topologies import PublishedNode, UnreadableTopology
from gputopo_explain.placed_pods import PlacedPod
from gputopo_kube.document import ObjectKey

NO_GPUS: Final = "the agent of this node has published no GPUs"
NO_POD: Final = "kubelet's pod-resources list names a pod that does not exist"


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU, and one container that uses it, or that should use it by the scheduler's choice.

    The container has the whole GPU or a share of it.

    Attributes:
        index: index of the GPU on its node; None if the node has no such GPU.
        uuid: UUID of the GPU; None if it is unknown.
        unhealthy: why no new container gets the GPU; None if the GPU is healthy.
        namespace, pod, uid, container: the container and its pod; None if the GPU is free, or if
            the value is unknown.
        since: RFC 3339 time at which kubelet accepted the pod.
        rank: rank of the GPU in the container; None if the scheduler did not choose this GPU.
        observed: whether kubelet's pod-resources list has the container with this GPU.
        difference: how the annotation and kubelet's list differ; None if they agree, if kubelet
            has not admitted the pod yet, or if the pod was not read.
        pod_deleted: whether the pod was deleted or has ended, but one of its processes runs.
        share: device ID of the share of the GPU; None for a whole GPU.
    """

    node: str
    index: int | None
    uuid: str | None
    unhealthy: str | None = None
    namespace: str | None = None
    pod: str | None = None
    uid: str | None = None
    container: str | None = None
    since: str | None = None
    rank: int | None = None
    observed: bool = False
    difference: str | None = None
    pod_deleted: bool = False
    share: str | None = None

    @property
    def pod_name(self) -> str | None:
        """Namespace and name of the pod; None for a free GPU."""
        return f"{self.namespace}/{self.pod}" if self.pod else None


class _User(NamedTuple):
    namespace: str
    pod: str
    container: str


_Ranks: TypeAlias = Mapping[_User, int]
_Seen: TypeAlias = ObservedGpu | ObservedShare
_Pods: TypeAlias = Mapping[ObjectKey, PlacedPod]
_IsRead: TypeAlias = Callable[[str], bool]


def list_uses(
    nodes: Iterable[PublishedNode],
    pods: Iterable[PlacedPod],
    *,
    is_read: _IsRead = lambda _: True,
) -> list[GpuUse]:
    """Return all uses of GPUs, ordered by node and index.

    Args:
        nodes: the nodes with GPUs.
        pods: the pods of the cluster, or those that were read.
        is_read: returns whether ``pods`` has all pods of a namespace. A pod of another namespace
            is known only from the agents, so it may exist although it is not in ``pods``.
    """
    by_key = {pod.view.key: pod for pod in pods}
    live: dict[str, list[PlacedPod]] = defaultdict(list)
    for pod in by_key.values():
        if pod.view.live and (pod.gpus or pod.fault):
            live[pod.view.node or ""].append(pod)
    known = {name: PublishedNode(UnreadableTopology(name, NO_GPUS)) for name in live}
    known |= {node.name: node for node in nodes}
    return [
        use
        for name in sorted(known)
        for use in _uses_of_node(known[name], live[name], by_key, is_read)
    ]


def _uses_of_node(
    node: PublishedNode, live: Sequence[PlacedPod], pods: _Pods, is_read: _IsRead
) -> Iterator[GpuUse]:
    if node.fault is not None:
        yield GpuUse(node.name, None, None, difference=f"its GPUTopology is invalid: {node.fault}")
    intended = _intended_users(live)
    observed = _observed_users(node)
    # GPUs that the node does not have come last.
    last = len(node.index_of)
    gpus = {*node.index_of, *map(gpu_of, intended)}
    devices: dict[str, set[str]] = defaultdict(set)
    for device in (*intended, *observed):
        devices[gpu_of(device)].add(device)
    for uuid in sorted(gpus, key=lambda uuid: (node.index_of.get(uuid, last), uuid)):
        users = [
            (device, user)
            for device in sorted(devices[uuid], key=_device_order)
            for user in sorted({*intended.get(device, ()), *observed.get(device, ())})
        ]
        if not users:
            unhealthy = _why_unhealthy(node.observed.get(uuid))
            yield GpuUse(node.name, node.index_of.get(uuid), uuid, unhealthy)
        for device, user in users:
            seen = observed.get(device, {}).get(user)
            yield _use(node, device, user, intended, seen=seen, pods=pods, is_read=is_read)
    for pod in live:
        if pod.fault is not None:
            yield GpuUse(
                node.name,
                index=None,
                uuid=None,
                namespace=pod.view.key.namespace,
                pod=pod.view.key.name,
                uid=pod.view.uid,
                since=pod.since,
                difference=pod.fault,
            )


def _device_order(device: str) -> tuple[int, str]:
    """Return a sort key: the GPU as a whole, then its shares by number."""
    return len(device), device


def _intended_users(live: Sequence[PlacedPod]) -> Mapping[str, _Ranks]:
    """Return for each device the containers that get it by an annotation, and its rank there."""
    intended: dict[str, dict[_User, int]] = defaultdict(dict)
    for pod in live:
        for container, devices in pod.gpus.items():
            for rank, device in enumerate(devices):
                intended[device][_User(*pod.view.key, container)] = rank
    return dict(intended)


def _observed_users(node: PublishedNode) -> Mapping[str, Mapping[_User, _Seen]]:
    """Return for each device of a node the container that has it."""
    seen: list[tuple[str, _Seen]] = []
    for uuid, gpu in node.observed.items():
        # If pods share a GPU, the GPU's own user is the first of them.
        seen += [(share.id, share) for share in gpu.shares] if gpu.shares else [(uuid, gpu)]
    return {
        device: {_User(each.namespace or "", each.pod, each.container or ""): each}
        for device, each in seen
        if each.pod
    }


def _use(
    node: PublishedNode,
    device: str,
    user: _User,
    intended: Mapping[str, _Ranks],
    *,
    seen: _Seen | None,
    pods: _Pods,
    is_read: _IsRead,
) -> GpuUse:
    uuid = gpu_of(device)
    gpu, rank = node.observed.get(uuid), intended.get(device, {}).get(user)
    deleted = bool(seen and seen.pod_deleted)
    # By now another pod may have the name of the deleted pod.
    pod = None if deleted else pods.get(ObjectKey(user.namespace, user.pod))
    difference = _unknown_gpu(node, uuid) or _chosen_twice(device, user, intended)
    if difference is None and not deleted and (pod is not None or is_read(user.namespace)):
        difference = _difference(pod, seen, intended=rank is not None)
    return GpuUse(
        node.name,
        index=node.index_of.get(uuid),
        uuid=uuid,
        unhealthy=_why_unhealthy(gpu),
        namespace=user.namespace,
        pod=user.pod,
        uid=pod.view.uid if pod else seen.pod_uid if seen else None,
        container=user.container or None,
        since=pod.since if pod else None,
        rank=rank,
        observed=seen is not None,
        difference=difference,
        pod_deleted=deleted,
        share=device if is_share(device) else None,
    )


def _why_unhealthy(gpu: ObservedGpu | None) -> str | None:
    return None if gpu is None or gpu.healthy else gpu.reason or "unhealthy"


def _unknown_gpu(node: PublishedNode, uuid: str) -> str | None:
    if uuid in node.index_of:
        return None
    return "the node has no such GPU" if node.index_of else NO_GPUS


def _chosen_twice(device: str, user: _User, intended: Mapping[str, _Ranks]) -> str | None:
    """Return which other containers got the device, or one that excludes it, by an annotation."""
    if user not in intended.get(device, {}):
        return None
    others = {
        f"{each.namespace}/{each.pod}"
        for other in conflicting(device)
        for each in intended.get(other, ())
        if (other, each) != (device, user)
    }
    return f"this GPU was also chosen for {' and '.join(sorted(others))}" if others else None


def _difference(pod: PlacedPod | None, seen: _Seen | None, *, intended: bool) -> str | None:
    if pod is None:
        return NO_POD
    if seen and seen.pod_uid not in {None, pod.view.uid}:
        return f"kubelet's pod-resources list has an earlier pod of this name, {seen.pod_uid}"
    if intended and not seen and pod.view.running:
        return "missing from kubelet's pod-resources list"
    if seen and not intended:
        return _why_not_intended(pod)
    return None


def _why_not_intended(pod: PlacedPod) -> str:
    if not pod.view.live:
        return "the pod has ended, but is still in kubelet's pod-resources list"
    if pod.gpus:
        return f"{GPUS_ANNOTATION} does not name this GPU"
    return pod.fault or f"the pod has no annotation {GPUS_ANNOTATION}"
