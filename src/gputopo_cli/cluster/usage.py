"""Both books of every GPU, row by row, and where they differ."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gputopo.api.names import GPUS_ANNOTATION
from gputopo.api.v1alpha1 import ObservedGpu
from gputopo_cli.cluster.nodes import Node
from gputopo_cli.cluster.pods import PlacedPod
from gputopo_kube.pods import PodKey

NO_GPUS: Final = "the node publishes no GPUs"
NO_POD: Final = "kubelet's books name a pod that is not there"


@dataclass(frozen=True, slots=True)
class Row:
    """One GPU and one container that has it by either book; or a GPU that nobody has.

    Attributes:
        index: on its node; None where the node has no such GPU.
        uuid: None where it cannot be told.
        unhealthy: why it is not given out, None where it is.
        namespace, pod, uid, container: the holder, as far as known; None for a free GPU.
        since: RFC 3339 time at which the holder came to its node.
        rank: among the GPUs that the scheduler chose for the container; None: not chosen.
        observed: whether kubelet's books have it.
        difference: what is wrong; None where both books agree, or kubelet has still to
            let the pod in.
        pod_deleted: whether the pod was deleted or has ended, and a process of it still runs.
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


class _Holder(NamedTuple):
    namespace: str
    pod: str
    container: str


_Given = Mapping[str, Mapping[_Holder, int]]
_Pods = Mapping[PodKey, PlacedPod]


def rows(nodes: Iterable[Node], pods: Iterable[PlacedPod]) -> list[Row]:
    """Return a row for every holder of every GPU, by node and index.

    Args:
        nodes: what the agents have published.
        pods: all of the cluster.
    """
    by_name = {pod.view.key: pod for pod in pods}
    live: dict[str, list[PlacedPod]] = defaultdict(list)
    for pod in by_name.values():
        if pod.view.live and (pod.gpus or pod.fault):
            live[pod.view.node or ""].append(pod)
    known = {node.name: node for node in nodes}
    return [
        row
        for name in sorted({*known, *live})
        for row in _rows_of(known.get(name, Node(name)), live[name], by_name)
    ]


def _rows_of(node: Node, live: Sequence[PlacedPod], pods: _Pods) -> Iterator[Row]:
    if node.fault is not None:
        yield Row(node.name, None, None, difference=f"its GPUTopology: {node.fault}")
    given = _given(live)
    for uuid in sorted({*node.index_of, *given}, key=lambda uuid: _place(node, uuid)):
        seen = node.observed.get(uuid)
        holder = _observed(seen)
        holders = sorted({*given[uuid], *([holder] if holder else [])})
        if not holders:
            yield Row(node.name, node.index_of.get(uuid), uuid, _sick(seen))
        for each in holders:
            yield _row(node, uuid, each, given[uuid], observed=each == holder, pods=pods)
    for pod in live:
        if pod.fault is not None:
            yield Row(
                *(node.name, None, None, None, *pod.view.key, pod.view.uid),
                since=pod.since,
                difference=pod.fault,
            )


def _given(live: Sequence[PlacedPod]) -> _Given:
    """Return who was given a GPU, and as which rank."""
    given: dict[str, dict[_Holder, int]] = defaultdict(dict)
    for pod in live:
        for container, uuids in pod.gpus.items():
            for rank, uuid in enumerate(uuids):
                given[uuid][_Holder(*pod.view.key, container)] = rank
    return given


def _row(
    node: Node,
    uuid: str,
    holder: _Holder,
    given: Mapping[_Holder, int],
    *,
    observed: bool,
    pods: _Pods,
) -> Row:
    seen = node.observed.get(uuid)
    deleted = bool(observed and seen and seen.pod_deleted)
    # Another pod may have the name of the deleted one by now.
    pod = None if deleted else pods.get(PodKey(holder.namespace, holder.pod))
    problem = _unknown(node, uuid) or _shared(holder, given)
    if problem is None and not deleted:
        problem = _difference(pod, seen, chosen=holder in given, observed=observed)
    return Row(
        *(node.name, node.index_of.get(uuid), uuid, _sick(seen), holder.namespace, holder.pod),
        uid=pod.view.uid if pod else seen.pod_uid if seen else None,
        container=holder.container or None,
        since=pod.since if pod else None,
        rank=given.get(holder),
        observed=observed,
        difference=problem,
        pod_deleted=deleted,
    )


def _sick(seen: ObservedGpu | None) -> str | None:
    return None if seen is None or seen.healthy else seen.reason or "unhealthy"


def _observed(seen: ObservedGpu | None) -> _Holder | None:
    if seen is None or not seen.pod:
        return None
    return _Holder(seen.namespace or "", seen.pod, seen.container or "")


def _unknown(node: Node, uuid: str) -> str | None:
    if uuid in node.index_of:
        return None
    return "the node has no such GPU" if node.index_of else NO_GPUS


def _shared(holder: _Holder, given: Mapping[_Holder, int]) -> str | None:
    others = [f"{each.namespace}/{each.pod}" for each in given if each != holder]
    return f"given to {' and '.join(others)} too" if others and holder in given else None


def _difference(
    pod: PlacedPod | None, seen: ObservedGpu | None, *, chosen: bool, observed: bool
) -> str | None:
    if pod is None:
        return NO_POD
    if observed and seen and seen.pod_uid not in {None, pod.view.uid}:
        return f"kubelet's books mean an earlier pod of this name, {seen.pod_uid}"
    if chosen and not observed and pod.view.running:
        return "kubelet's books do not have it"
    if observed and not chosen:
        return _not_chosen(pod)
    return None


def _not_chosen(pod: PlacedPod) -> str:
    if not pod.view.live:
        return "the pod has ended, and kubelet's books still have it"
    if pod.gpus:
        return f"{GPUS_ANNOTATION} does not name it"
    return pod.fault or f"the pod has no annotation {GPUS_ANNOTATION}"


def _place(node: Node, uuid: str) -> tuple[int, str]:
    return node.index_of.get(uuid, len(node.index_of)), uuid
