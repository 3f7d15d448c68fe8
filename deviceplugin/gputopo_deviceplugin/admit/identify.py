"""Whose GPUs kubelet asks about, by elimination. Pure.

Kubelet's calls name no pod. But it admits one container after the other, and its pod-resources
list shows every pod that it knows, also those that hold no GPU yet: the only one of them that
still waits for GPUs is the one that is being admitted.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.pods import PlacementError, entitled_gpus
from gputopo_kube.pods import GpuContainer, PodKey, PodView


@dataclass(frozen=True, slots=True)
class PreferenceRequest:
    """What kubelet asks: ``size`` GPUs out of ``available``, with all of ``must``."""

    available: frozenset[GpuUuid]
    must: frozenset[GpuUuid]
    size: int


@dataclass(frozen=True, slots=True)
class ContainerAllocation:
    """The container that is being admitted, and its GPUs in rank order."""

    pod: PodView
    container: str
    gpus: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True)
class AdmissionRejection:
    """Why no GPU is handed out; ``pod`` where it is known whom that concerns."""

    reason: str
    pod: PodView | None = None


def identify(
    question: PreferenceRequest,
    listed: Sequence[ListedPod],
    pods: Mapping[PodKey, PodView],
    *,
    node: str,
    refused: Collection[str],
) -> ContainerAllocation | AdmissionRejection:
    """Return the container that is being admitted, or why that cannot be said for certain.

    Args:
        question: kubelet's.
        listed: kubelet's books, read while it waits for the answer.
        pods: this node's pods as the API server knows them.
        node: this node's name.
        refused: UIDs of pods that were refused before; that is final for a pod.
    """
    waiting = list(_waiting(listed, pods, refused))
    fitting = [
        (pod, next(ask for ask in asks if ask.gpus == question.size))
        for pod, asks in waiting
        if any(ask.gpus == question.size for ask in asks)
    ]
    if not fitting:
        told = ", ".join(f"{pod.key} for {_sizes(asks)}" for pod, asks in waiting) or "none"
        return AdmissionRejection(
            f"no pod of this node waits for {question.size} GPUs in its next container "
            f"(waiting: {told})"
        )
    if len(fitting) > 1:
        return AdmissionRejection(
            f"several pods wait for {question.size} GPUs and kubelet does not say whom it "
            f"means: {_names(pod.key for pod, _ in fitting)}"
        )
    pod, ask = fitting[0]
    others = {key for key in _empty(listed) if _may_ask(key, pods)} - {pod.key}
    if pod.running and others:
        # Admitted long ago: meant only if kubelet lost its record, and then nobody else may be.
        return AdmissionRejection(
            f"kubelet may mean pod {pod.key}, which runs already, or another one that has no "
            f"GPUs yet: {_names(sorted(others))}"
        )
    # Kubelets before 1.34 go on listing pods that have ended.
    active = [entry for entry in listed if entry.key not in pods or pods[entry.key].live]
    return _chosen(question, active, pod, ask.name, node)


def unsettled(
    listed: Sequence[ListedPod], pods: Mapping[PodKey, PodView]
) -> tuple[set[PodKey], set[PodKey]]:
    """Return the listed pods that may wait for GPUs by what kubelet's books say.

    Returns:
        Those that ask for GPUs or are not known, and those that are known not to.
    """
    empty = _empty(listed)
    asking = {key for key in empty if _may_ask(key, pods)}
    return asking, empty - asking


def _empty(listed: Sequence[ListedPod]) -> set[PodKey]:
    return {pod.key for pod in listed if not all(pod.containers.values())}


def _may_ask(key: PodKey, pods: Mapping[PodKey, PodView]) -> bool:
    return key not in pods or bool(pods[key].containers)


def _waiting(
    listed: Sequence[ListedPod], pods: Mapping[PodKey, PodView], refused: Collection[str]
) -> Iterator[tuple[PodView, list[GpuContainer]]]:
    """Yield each pod that may be in admission, and which of its containers may be next.

    Kubelet serves them in their order. The next that keeps its GPUs is the first that holds
    none; ordinary init containers before it do not show in the books, but kubelet asks for a
    preference only for the first of its size, as smaller asks are met from what is borrowed.
    """
    for entry in listed:
        pod = pods.get(entry.key)
        if pod is None or not pod.live or pod.deleting or pod.uid in refused:
            continue
        asks: list[GpuContainer] = []
        for ask in pod.containers:
            if not ask.keeps_gpus:
                asks.append(ask)
            elif entry.containers.get(ask.name):
                asks.clear()
            else:
                asks.append(ask)
                break
        if asks:
            yield pod, asks


def _names(keys: Iterable[PodKey]) -> str:
    return ", ".join(map(str, keys))


def _sizes(asks: Sequence[GpuContainer]) -> str:
    return " or ".join(map(str, dict.fromkeys(ask.gpus for ask in asks)))


def _chosen(
    question: PreferenceRequest,
    listed: Sequence[ListedPod],
    pod: PodView,
    container: str,
    node: str,
) -> ContainerAllocation | AdmissionRejection:
    """Return the container with its GPUs, where these can be handed out as they are."""
    try:
        entitled = entitled_gpus(pod, container, node)
    except PlacementError as error:
        return AdmissionRejection(str(error), pod)
    gpus = _part(entitled, question)
    obstacle = _obstacle(question, listed, gpus)
    if obstacle is not None:
        return AdmissionRejection(f"pod {pod.key}: {obstacle}", pod)
    return ContainerAllocation(pod, container, gpus)


def _part(entitled: Sequence[GpuUuid], question: PreferenceRequest) -> tuple[GpuUuid, ...]:
    """Return as many as kubelet asks for, those it insists on first, in rank order."""
    by_need = sorted(entitled, key=lambda gpu: gpu not in question.must)
    taken = set(by_need[: question.size])
    return tuple(gpu for gpu in entitled if gpu in taken)


def _obstacle(
    question: PreferenceRequest, listed: Sequence[ListedPod], gpus: Sequence[GpuUuid]
) -> str | None:
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
            "its record of the pod's init containers differs from the pod's annotation; create "
            "the pod again"
        )
    return None
