"""Finds the container for which kubelet requests GPUs, by elimination. Pure functions.

Kubelet's calls do not name the pod. But kubelet admits one container after the other. Kubelet's
pod-resources list contains all pods, including pods without GPUs. So the container belongs to the
only listed pod that requests GPUs and does not have them yet.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gputopo.api.shares import conflicting, is_share
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.placement import PlacementError, candidate_gpus
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.pods import PodView


@dataclass(frozen=True, slots=True)
class PreferenceRequest:
    """Kubelet's request to choose ``size`` GPUs from ``available``, including all ``required``.

    Kubelet sends one request for each resource: for GPUs, or for shares of GPUs.
    """

    available: frozenset[GpuUuid]
    required: frozenset[GpuUuid]
    size: int

    @property
    def shared(self) -> bool:
        """Whether the request is for shares of GPUs."""
        return any(map(is_share, self.available))

    def fits(self, container: GpuContainer) -> bool:
        """Return whether the request may be for this container."""
        return container.gpus == self.size and container.shared == self.shared


@dataclass(frozen=True, slots=True)
class ContainerAllocation:
    """The container that kubelet admits, and the GPUs of this container in rank order."""

    pod: PodView
    container: str
    gpus: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True)
class AdmissionRejection:
    """The reason why a container gets no GPUs.

    Attributes:
        pod: None if no pod was identified.
        node_fault: whether other pods of the node may be rejected for the same reason, so that the
            extender should avoid the node for some time. False if the reason is what the pod
            declares, or a fault of one GPU: a user could otherwise keep pods away from the node.
    """

    reason: str
    pod: PodView | None = None
    node_fault: bool = True


AdmissionResult: TypeAlias = ContainerAllocation | AdmissionRejection


def identify(
    request: PreferenceRequest,
    listed: Sequence[ListedPod],
    pods: Mapping[ObjectKey, PodView],
    *,
    node: str,
    rejected: Collection[str],
) -> AdmissionResult:
    """Return the container for which kubelet sent the request, with its GPUs, or a rejection.

    Args:
        request: kubelet's request.
        listed: kubelet's pod-resources list, read after the request has arrived.
        pods: this node's pods as the API server knows them.
        node: this node's name.
        rejected: UIDs of pods that the agent rejected before. A rejection is final.
    """
    waiting = list(_waiting(listed, pods, rejected))
    fitting = [
        (pod, next(filter(request.fits, containers)))
        for pod, containers in waiting
        if any(map(request.fits, containers))
    ]
    kind = "shares" if request.shared else "GPUs"
    if not fitting:
        others = ", ".join(f"{pod.key} for {_sizes(each)}" for pod, each in waiting) or "none"
        return AdmissionRejection(
            f"no pod of this node waits for {request.size} {kind} in its next container "
            f"(waiting: {others})"
        )
    if len(fitting) > 1:
        return AdmissionRejection(
            f"several pods wait for {request.size} {kind}, and kubelet does not name the pod of "
            f"its request: {_join(pod.key for pod, _ in fitting)}"
        )
    pod, container = fitting[0]
    waiting_keys = {key for key in _without_gpus(listed) if _may_request(key, pods)} - {pod.key}
    if pod.running and waiting_keys:
        # This pod was admitted long ago. Kubelet requests GPUs for this pod only if kubelet
        # has lost its record of the pod. The pod gets its GPUs only if no other pod can be in
        # admission.
        return AdmissionRejection(
            f"kubelet does not name the pod of its request: it may be {pod.key}, which runs "
            f"already, or a pod that may wait for GPUs ({_join(sorted(waiting_keys))})"
        )
    # Kubelets before 1.34 continue to list pods that have ended.
    active = [entry for entry in listed if entry.key not in pods or pods[entry.key].live]
    return _allocation(request, active, pod, container.name, node)


def unresolved_pods(
    listed: Sequence[ListedPod], pods: Mapping[ObjectKey, PodView]
) -> tuple[set[ObjectKey], set[ObjectKey]]:
    """Divide the listed pods that have a container without GPUs into two sets.

    The first set has the pods that request GPUs or may request GPUs. A pod may request GPUs if the
    agent has not read it yet, so that ``pods`` does not contain it. The second set has the rest.
    """
    without = _without_gpus(listed)
    requesting = {key for key in without if _may_request(key, pods)}
    return requesting, without - requesting


def _without_gpus(listed: Sequence[ListedPod]) -> set[ObjectKey]:
    return {pod.key for pod in listed if not all(pod.containers.values())}


def _may_request(key: ObjectKey, pods: Mapping[ObjectKey, PodView]) -> bool:
    return key not in pods or bool(pods[key].containers)


def _waiting(
    listed: Sequence[ListedPod], pods: Mapping[ObjectKey, PodView], rejected: Collection[str]
) -> Iterator[tuple[PodView, list[GpuContainer]]]:
    """Yield each pod that kubelet may be admitting, with the possible next containers.

    Kubelet allocates GPUs to the containers of a pod in order. For example, a pod has the init
    container A and the application container B. Kubelet's list never shows A, because the list has
    no ordinary init containers. So while the list shows B without GPUs, the next container may be A
    or B. If A and B request the same number of GPUs, the next container is A: kubelet calls
    GetPreferredAllocation only for A, because B later gets the GPUs of A.
    """
    for entry in listed:
        pod = pods.get(entry.key)
        if pod is None or not pod.live or pod.deleting or pod.uid in rejected:
            continue
        candidates: list[GpuContainer] = []
        for container in pod.containers:
            if container.keeps_gpus and entry.containers.get(container.name):
                candidates.clear()
                continue
            candidates.append(container)
            if container.keeps_gpus:
                break
        if candidates:
            yield pod, candidates


def _join(keys: Iterable[ObjectKey]) -> str:
    return ", ".join(map(str, keys))


def _sizes(containers: Sequence[GpuContainer]) -> str:
    return " or ".join(map(str, dict.fromkeys(each.gpus for each in containers)))


def _allocation(
    request: PreferenceRequest,
    listed: Sequence[ListedPod],
    pod: PodView,
    container: str,
    node: str,
) -> AdmissionResult:
    try:
        candidates = candidate_gpus(pod, container, node)
    except PlacementError as error:
        return AdmissionRejection(str(error), pod, node_fault=False)
    gpus = _select(candidates, request)
    obstacle = _obstacle(request, listed, gpus)
    if obstacle is not None:
        return AdmissionRejection(f"pod {pod.key}: {obstacle}", pod)
    return ContainerAllocation(pod, container, gpus)


def _select(candidates: Sequence[GpuUuid], request: PreferenceRequest) -> tuple[GpuUuid, ...]:
    """Select the requested number of candidates, including the required GPUs, in rank order.

    A request for 2 of (D, A, C) gets (D, A) if A is required, and (D, C) if C is required.
    """
    by_need = sorted(candidates, key=lambda gpu: gpu not in request.required)
    selected = set(by_need[: request.size])
    return tuple(gpu for gpu in candidates if gpu in selected)


def _obstacle(
    request: PreferenceRequest, listed: Sequence[ListedPod], gpus: Sequence[GpuUuid]
) -> str | None:
    users = {
        gpu: entry.key for entry in listed for used in entry.containers.values() for gpu in used
    }
    for gpu in gpus:
        if using := sorted(conflicting(gpu) & users.keys()):
            return f"{using[0]} is used by pod {users[using[0]]}"
        if gpu not in request.available:
            return f"{gpu} is not available on this node now"
    if missing := request.required - set(gpus):
        return (
            f"kubelet requires {', '.join(sorted(missing))}, which the annotation does not name: "
            "kubelet's record of the pod's init containers differs from the annotation; create "
            "the pod again"
        )
    return None
