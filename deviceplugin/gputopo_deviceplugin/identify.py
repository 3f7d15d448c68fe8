"""Whose GPUs kubelet asks about, by elimination. Pure.

Kubelet's calls name no pod. But it admits one container after the other, and its pod-resources
list shows every pod that it knows, also those that hold no GPU yet: the only one of them that
still waits for GPUs is the one that is being admitted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.pods import PlacementError, PodKey, PodRecord, placed_gpus


@dataclass(frozen=True, slots=True)
class ListedPod:
    """A pod in kubelet's books: the GPUs that each container holds, by container name."""

    key: PodKey
    containers: Mapping[str, frozenset[GpuUuid]]


@dataclass(frozen=True, slots=True)
class Question:
    """What kubelet asks: ``size`` GPUs out of ``available``, with all of ``must``."""

    available: frozenset[GpuUuid]
    must: frozenset[GpuUuid]
    size: int


@dataclass(frozen=True, slots=True)
class Identified:
    """The container that is being admitted, and its GPUs in rank order."""

    pod: PodRecord
    container: str
    gpus: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no GPU is handed out; ``pod`` where it is known whom that concerns."""

    reason: str
    pod: PodRecord | None = None


def identify(
    question: Question,
    listed: Sequence[ListedPod],
    pods: Mapping[PodKey, PodRecord],
    *,
    node: str,
    refused: Collection[str],
) -> Identified | Refusal:
    """Return the container that is being admitted, or why that cannot be said for certain.

    Args:
        question: kubelet's.
        listed: kubelet's books, read while it waits for the answer.
        pods: this node's pods as the API server knows them.
        node: this node's name.
        refused: UIDs of pods that were refused before; that is final for a pod.
    """
    waiting = list(_waiting(listed, pods, refused))
    fitting = [(pod, name) for pod, name, gpus in waiting if gpus == question.size]
    if not fitting:
        others = ", ".join(f"{pod.key} for {gpus}" for pod, _, gpus in waiting) or "none"
        return Refusal(
            f"no pod of this node waits for {question.size} GPUs in its next container "
            f"(waiting: {others})"
        )
    if len(fitting) > 1:
        names = ", ".join(str(pod.key) for pod, _ in fitting)
        return Refusal(
            f"several pods wait for {question.size} GPUs and kubelet does not say whom it "
            f"means: {names}"
        )
    pod, container = fitting[0]
    return _chosen(question, listed, pod, container, node)


def unsettled(
    listed: Sequence[ListedPod], pods: Mapping[PodKey, PodRecord]
) -> tuple[list[PodKey], list[PodKey]]:
    """Return the listed pods that may wait for GPUs: those unknown so far, and those known."""
    empty = [pod.key for pod in listed if not all(pod.containers.values())]
    unknown = [key for key in empty if key not in pods]
    known = [key for key in empty if key in pods and pods[key].asks]
    return unknown, known


def _waiting(
    listed: Sequence[ListedPod], pods: Mapping[PodKey, PodRecord], refused: Collection[str]
) -> Iterator[tuple[PodRecord, str, int]]:
    """Yield each pod that may be in admission, its next container, and what that asks for."""
    for entry in listed:
        pod = pods.get(entry.key)
        if pod is None or not pod.live or pod.leaving or pod.uid in refused:
            continue
        for ask in pod.asks:  # kubelet serves them in the order of the spec
            if not entry.containers.get(ask.container):
                yield pod, ask.container, ask.gpus
                break


def _chosen(
    question: Question, listed: Sequence[ListedPod], pod: PodRecord, container: str, node: str
) -> Identified | Refusal:
    """Return the container with its GPUs, where these can be handed out as they are."""
    if pod.init_asks:
        init = pod.init_asks[0].container
        return Refusal(
            f"pod {pod.key}: init container {init} asks for GPUs: not yet supported", pod
        )
    try:
        gpus = placed_gpus(pod, node).get(container, ())
    except PlacementError as error:
        return Refusal(str(error), pod)
    obstacle = _obstacle(question, listed, container, gpus)
    if obstacle is not None:
        return Refusal(f"pod {pod.key}: {obstacle}", pod)
    return Identified(pod, container, gpus)


def _obstacle(
    question: Question, listed: Sequence[ListedPod], container: str, gpus: Sequence[GpuUuid]
) -> str | None:
    if len(set(gpus)) != question.size:
        return f"container {container} asks for {question.size} GPUs and was given {len(set(gpus))}"
    holders = {
        gpu: entry.key for entry in listed for held in entry.containers.values() for gpu in held
    }
    for gpu in gpus:
        if gpu in holders:
            return f"{gpu} is held by pod {holders[gpu]}"
        if gpu not in question.available:
            return f"{gpu} is not available on this node now"
    if missing := question.must - set(gpus):
        return (
            f"kubelet insists on {', '.join(sorted(missing))}, which is not among the pod's GPUs: "
            "set kubelet's topology manager policy to none"
        )
    return None
