"""Compare the intended and the observed users of every GPU of a cluster."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from gputopo.api.names import GPUS_ANNOTATION
from gputopo.api.v1alpha1 import ObservedGpu
from gputopo_kube.document import ObjectKey
from gputopo_view.placed_pods import PlacedPod
from gputopo_view.published import PublishedNode

NO_GPUS: Final = "the agent of this node has published no GPUs"
NO_POD: Final = "kubelet's pod-resources list names a pod that does not exist"


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU, and one container that uses this GPU or should use it by the scheduler's choice.

    Attributes:
        index: index of the GPU on its node; None if the node has no such GPU.
        uuid: UUID of the GPU; None if it is unknown.
        unhealthy: why no new container gets the GPU; None if the GPU is healthy.
        namespace, pod, uid, container: the container and its pod; None if the GPU is free, or if
            the value is unknown.
        since: RFC 3339 time at which kubelet accepted the pod.
        rank: rank of the GPU in the container; None if the scheduler did not choose this GPU.
        observed: whether kubelet's pod-resources list has the container with this GPU.
        difference: how the annotation and kubelet's list differ; None if they agree, or if
            kubelet has not admitted the pod yet.
        pod_deleted: whether the pod was deleted or has ended, but one of its processes runs.
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

    @property
    def pod_name(self) -> str | None:
        """Namespace and name of the pod; None for a free GPU."""
        return f"{self.namespace}/{self.pod}" if self.pod else None


class _User(NamedTuple):
    namespace: str
    pod: str
    container: str


_Ranks: TypeAlias = Mapping[_User, int]
_Pods: TypeAlias = Mapping[ObjectKey, PlacedPod]


def list_uses(nodes: Iterable[PublishedNode], pods: Iterable[PlacedPod]) -> list[GpuUse]:
    """Return all uses of GPUs, ordered by node and index; ``pods`` are all pods of the cluster."""
    by_key = {pod.view.key: pod for pod in pods}
    live: dict[str, list[PlacedPod]] = defaultdict(list)
    for pod in by_key.values():
        if pod.view.live and (pod.gpus or pod.fault):
            live[pod.view.node or ""].append(pod)
    known = {node.name: node for node in nodes}
    return [
        use
        for name in sorted({*known, *live})
        for use in _uses_of_node(known.get(name, PublishedNode(name)), live[name], by_key)
    ]


def _uses_of_node(node: PublishedNode, live: Sequence[PlacedPod], pods: _Pods) -> Iterator[GpuUse]:
    if node.fault is not None:
        yield GpuUse(node.name, None, None, difference=f"its GPUTopology is invalid: {node.fault}")
    intended = _intended_users(live)
    # GPUs that the node does not have come last.
    last = len(node.index_of)
    for uuid in sorted(
        {*node.index_of, *intended}, key=lambda uuid: (node.index_of.get(uuid, last), uuid)
    ):
        observed = _observed_user(node.observed.get(uuid))
        users = sorted({*intended[uuid], *([observed] if observed else [])})
        if not users:
            unhealthy = _why_unhealthy(node.observed.get(uuid))
            yield GpuUse(node.name, node.index_of.get(uuid), uuid, unhealthy)
        for user in users:
            yield _use(node, uuid, user, intended[uuid], observed=user == observed, pods=pods)
    for pod in live:
        if pod.fault is not None:
            yield GpuUse(
                *(node.name, None, None, None, *pod.view.key, pod.view.uid),
                since=pod.since,
                difference=pod.fault,
            )


def _intended_users(live: Sequence[PlacedPod]) -> Mapping[str, _Ranks]:
    """Return for each GPU UUID the containers that get it by an annotation, and its rank there."""
    intended: dict[str, dict[_User, int]] = defaultdict(dict)
    for pod in live:
        for container, uuids in pod.gpus.items():
            for rank, uuid in enumerate(uuids):
                intended[uuid][_User(*pod.view.key, container)] = rank
    return intended


def _observed_user(gpu: ObservedGpu | None) -> _User | None:
    if gpu is None or not gpu.pod:
        return None
    return _User(gpu.namespace or "", gpu.pod, gpu.container or "")


def _use(
    node: PublishedNode, uuid: str, user: _User, intended: _Ranks, *, observed: bool, pods: _Pods
) -> GpuUse:
    gpu = node.observed.get(uuid)
    deleted = bool(observed and gpu and gpu.pod_deleted)
    # By now another pod may have the name of the deleted pod.
    pod = None if deleted else pods.get(ObjectKey(user.namespace, user.pod))
    difference = _unknown_gpu(node, uuid) or _shared_gpu(user, intended)
    if difference is None and not deleted:
        difference = _difference(pod, gpu, intended=user in intended, observed=observed)
    return GpuUse(
        *(node.name, node.index_of.get(uuid), uuid, _why_unhealthy(gpu), user.namespace, user.pod),
        uid=pod.view.uid if pod else gpu.pod_uid if gpu else None,
        container=user.container or None,
        since=pod.since if pod else None,
        rank=intended.get(user),
        observed=observed,
        difference=difference,
        pod_deleted=deleted,
    )


def _why_unhealthy(gpu: ObservedGpu | None) -> str | None:
    return None if gpu is None or gpu.healthy else gpu.reason or "unhealthy"


def _unknown_gpu(node: PublishedNode, uuid: str) -> str | None:
    if uuid in node.index_of:
        return None
    return "the node has no such GPU" if node.index_of else NO_GPUS


def _shared_gpu(user: _User, intended: _Ranks) -> str | None:
    others = [f"{each.namespace}/{each.pod}" for each in intended if each != user]
    return (
        f"this GPU was also chosen for {' and '.join(others)}"
        if others and user in intended
        else None
    )


def _difference(
    pod: PlacedPod | None, gpu: ObservedGpu | None, *, intended: bool, observed: bool
) -> str | None:
    if pod is None:
        return NO_POD
    if observed and gpu and gpu.pod_uid not in {None, pod.view.uid}:
        return f"kubelet's pod-resources list has an earlier pod of this name, {gpu.pod_uid}"
    if intended and not observed and pod.view.running:
        return "missing from kubelet's pod-resources list"
    if observed and not intended:
        return _why_not_intended(pod)
    return None


def _why_not_intended(pod: PlacedPod) -> str:
    if not pod.view.live:
        return "the pod has ended, but is still in kubelet's pod-resources list"
    if pod.gpus:
        return f"{GPUS_ANNOTATION} does not name this GPU"
    return pod.fault or f"the pod has no annotation {GPUS_ANNOTATION}"
