"""What kubelet is answered: the GPUs to take, and whether those it took are right. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gputopo.api.names import CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES
from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.admit.identify import (
    AdmissionRejection,
    ContainerAllocation,
    PreferenceRequest,
)
from gputopo_deviceplugin.gpus.health import Health
from gputopo_deviceplugin.pods import PlacementError, entitled_gpus, keeper_of, placed_gpus
from gputopo_kube.pods import PodKey, PodView

CONTROL_DEVICES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device nodes that every CUDA program needs, as far as the host has them."""


@dataclass(frozen=True, slots=True)
class GpuUser:
    """The container that uses a GPU.

    Attributes:
        key: its pod.
        container: its name.
        uid: of the pod; None where the API server did not return it.
        gone: set where the pod was deleted or has ended, and a process of it still runs.
    """

    key: PodKey
    container: str
    uid: str | None
    gone: Literal["deleted", "ended"] | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container gets: its environment, and its GPUs in rank order.

    Attributes:
        devices: names of device nodes in the host's device folder; empty with CDI.
        cdi_devices: fully qualified CDI device names; empty with device nodes.
    """

    environment: Mapping[str, str]
    devices: tuple[str, ...] = ()
    cdi_devices: tuple[str, ...] = ()


def preferred(
    question: PreferenceRequest, outcome: ContainerAllocation | AdmissionRejection
) -> tuple[GpuUuid, ...] | AdmissionRejection:
    """Return the GPUs that kubelet should take.

    An error here, while kubelet has taken GPUs already (``must``), would leave those marked as
    taken in its books: then it is answered something, and Allocate refuses.
    """
    if isinstance(outcome, ContainerAllocation):
        return outcome.gpus
    if not question.must:
        return outcome
    rest = sorted(question.available - question.must)
    return (*sorted(question.must), *rest)[: max(question.size, 0)]


def verify(
    gpus: Sequence[GpuUuid],
    expected: ContainerAllocation | AdmissionRejection | None,
    pods: Sequence[PodView],
    *,
    node: str,
    holders: Mapping[GpuUuid, GpuUser],
    health: Health,
) -> ContainerAllocation | AdmissionRejection:
    """Return whose GPUs kubelet took, in rank order, or why they must not be handed out.

    Args:
        gpus: what kubelet took, in no order.
        expected: the outcome of the preference that kubelet asked for just before, None where
            it did not ask.
        pods: live pods of this node.
        node: this node's name.
        holders: the users of GPUs: live pods, and processes of ended and deleted ones.
        health: of every GPU of this node.
    """
    if isinstance(expected, AdmissionRejection):
        return expected
    found = _handed_on(gpus, pods, node, holders) if expected is None else expected
    if isinstance(found, AdmissionRejection):
        return found
    pod = found.pod
    if set(gpus) != set(found.gpus):
        return AdmissionRejection(
            f"pod {pod.key}: kubelet took {_names(gpus)}, but container {found.container} was "
            f"given {_names(found.gpus)}",
            pod,
        )
    others = {gpu: holder for gpu, holder in holders.items() if not _is_own(holder, found)}
    others = {**placed_elsewhere(gpus, pod.uid, pods, node), **others}
    obstacles = [
        obstacle
        for gpu in sorted(gpus)
        if (obstacle := _obstacle(gpu, others.get(gpu), health)) is not None
    ]
    return AdmissionRejection(f"pod {pod.key}: {'; '.join(obstacles)}", pod) if obstacles else found


def placed_elsewhere(
    gpus: Sequence[GpuUuid], own_uid: str | None, pods: Iterable[PodView], node: str
) -> dict[GpuUuid, GpuUser]:
    """Return which of these GPUs the annotations of other live pods name, and whose they are.

    This is all that tells it when kubelet lost its record of a container that still runs.
    """
    return {
        gpu: GpuUser(pod.key, container, pod.uid)
        for pod in pods
        if pod.live and pod.uid != own_uid
        for container, placed in _placed(pod, node).items()
        for gpu in placed
        if gpu in gpus
    }


def grant_of(
    found: ContainerAllocation,
    gpus: Mapping[GpuUuid, Gpu],
    controls: Sequence[str],
    *,
    cdi_kind: str | None = None,
) -> Grant:
    """Return what the container gets. CUDA numbers its devices in the order of its variable.

    With a CDI kind, containerd or CRI-O inject the GPUs. NVIDIA_VISIBLE_DEVICES is then ``void``:
    without a value, NVIDIA's runtime would read the one of the image, which is ``all`` in CUDA
    base images; with the UUIDs, its legacy hook would inject the same GPUs a second time.
    """
    uuids = ",".join(found.gpus)
    if cdi_kind is not None:
        return Grant(
            environment={CUDA_VISIBLE_DEVICES: uuids, NVIDIA_VISIBLE_DEVICES: "void"},
            cdi_devices=tuple(f"{cdi_kind}={uuid}" for uuid in found.gpus),
        )
    return Grant(
        environment={CUDA_VISIBLE_DEVICES: uuids, NVIDIA_VISIBLE_DEVICES: uuids},
        devices=(*(f"nvidia{gpus[uuid].minor}" for uuid in found.gpus), *controls),
    )


def _obstacle(gpu: GpuUuid, other: GpuUser | None, health: Health) -> str | None:
    if gpu not in health:
        return f"this node has no {gpu}"
    if (fault := health[gpu]) is not None:
        return f"{gpu} is unhealthy: {fault}"
    return None if other is None else _use(gpu, other)


def _use(gpu: GpuUuid, holder: GpuUser) -> str:
    if holder.gone is not None:
        return f"{gpu} is in use by a process of {holder.gone} pod {holder.key}"
    return f"{gpu} is held by pod {holder.key}"


def _is_own(holder: GpuUser, found: ContainerAllocation) -> bool:
    """Return whether the container itself holds it, or one that hands it on to the container."""
    pod = found.pod
    if (holder.key, holder.uid) != (pod.key, pod.uid):
        return False
    return keeper_of(pod, holder.container) == keeper_of(pod, found.container)


def _handed_on(
    gpus: Sequence[GpuUuid],
    pods: Sequence[PodView],
    node: str,
    holders: Mapping[GpuUuid, GpuUser],
) -> ContainerAllocation | AdmissionRejection:
    """Find the container to which init containers of its pod hand on these GPUs.

    Only then kubelet asks no preference. To guess from the GPUs whom else it may mean would be
    to give a pod what another one was given.
    """
    holding = {holders.get(gpu) for gpu in gpus}
    owners = {None if holder is None else (holder.key, holder.uid) for holder in holding}
    for pod in pods:
        if pod.live and not pod.deleting and owners == {(pod.key, pod.uid)}:
            found = _next_with(gpus, pod, node, holders)
            if found is not None:
                return found
    held = [_use(gpu, holders[gpu]) for gpu in sorted(gpus) if gpu in holders]
    reasons = f" ({'; '.join(held)})" if held else ""
    return AdmissionRejection(
        f"kubelet took {_names(gpus)} without asking for a preference, and no init container "
        f"hands them on{reasons}: the agent was registered again in between, or another plugin "
        "has registered the same resource; create the pod again"
    )


def _next_with(
    gpus: Sequence[GpuUuid], pod: PodView, node: str, holders: Mapping[GpuUuid, GpuUser]
) -> ContainerAllocation | None:
    """Return the container after those that hold these GPUs that may have just these.

    None where there is none.
    """
    holding = {holders[gpu].container for gpu in gpus}
    last = max((at for at, ask in enumerate(pod.containers) if ask.name in holding), default=-1)
    for ask in pod.containers[last + 1 :]:
        try:
            entitled = entitled_gpus(pod, ask.name, node)
        except PlacementError:
            continue  # nothing was chosen for it
        if len(gpus) == ask.gpus and set(gpus) <= set(entitled):
            return ContainerAllocation(pod, ask.name, tuple(gpu for gpu in entitled if gpu in gpus))
    return None


def _placed(pod: PodView, node: str) -> Mapping[str, tuple[GpuUuid, ...]]:
    try:
        return placed_gpus(pod, node)
    except PlacementError:
        return {}


def _names(gpus: Sequence[GpuUuid]) -> str:
    return " ".join(sorted(gpus))
