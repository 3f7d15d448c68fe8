"""What kubelet is answered: the GPUs to take, and whether those it took are right. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.health import Health
from gputopo_deviceplugin.identify import Identified, Question, Refusal
from gputopo_deviceplugin.pods import PlacementError, PodKey, PodRecord, placed_gpus

CONTROL_DEVICES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device nodes that every CUDA program needs, as far as the host has them."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The container that holds a GPU; ``uid`` is None where the API server did not tell it."""

    key: PodKey
    container: str
    uid: str | None


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container gets: its environment, and its device nodes in rank order."""

    environment: Mapping[str, str]
    devices: tuple[str, ...]


def preferred(question: Question, outcome: Identified | Refusal) -> tuple[GpuUuid, ...] | Refusal:
    """Return the GPUs that kubelet should take.

    An error here, while kubelet has taken GPUs already (``must``), would leave those marked as
    taken in its books: then it is answered something, and Allocate refuses.
    """
    if isinstance(outcome, Identified):
        return outcome.gpus
    if not question.must:
        return outcome
    rest = sorted(question.available - question.must)
    return (*sorted(question.must), *rest)[: question.size]


def verify(
    gpus: Sequence[GpuUuid],
    expected: Identified | Refusal | None,
    pods: Sequence[PodRecord],
    *,
    node: str,
    holders: Mapping[GpuUuid, Holder],
    health: Health,
) -> Identified | Refusal:
    """Return whose GPUs kubelet took, in rank order, or why they must not be handed out.

    Args:
        gpus: what kubelet took, in no order.
        expected: the outcome of the preference that kubelet asked for just before, None where
            it did not ask.
        pods: live pods of this node.
        node: this node's name.
        holders: who holds what, by the agent's own books.
        health: of every GPU of this node.
    """
    if isinstance(expected, Refusal):
        return expected
    found = _by_gpus(gpus, pods, node) if expected is None else expected
    if isinstance(found, Refusal):
        return found
    pod = found.pod
    if set(gpus) != set(found.gpus):
        return Refusal(
            f"pod {pod.key}: kubelet took {_names(gpus)}, but container {found.container} was "
            f"given {_names(found.gpus)}",
            pod,
        )
    own = Holder(pod.key, found.container, pod.uid)
    obstacles = [
        obstacle
        for gpu in sorted(gpus)
        if (obstacle := _obstacle(gpu, holders.get(gpu, own), own, health)) is not None
    ]
    return Refusal(f"pod {pod.key}: {'; '.join(obstacles)}", pod) if obstacles else found


def grant_of(found: Identified, gpus: Mapping[GpuUuid, Gpu], controls: Sequence[str]) -> Grant:
    """Return what the container gets. CUDA numbers its devices in the order of the variable."""
    uuids = ",".join(found.gpus)
    return Grant(
        environment={"CUDA_VISIBLE_DEVICES": uuids, "NVIDIA_VISIBLE_DEVICES": uuids},
        devices=(*(f"nvidia{gpus[uuid].minor}" for uuid in found.gpus), *controls),
    )


def _obstacle(gpu: GpuUuid, holder: Holder, own: Holder, health: Health) -> str | None:
    if gpu not in health:
        return f"this node has no {gpu}"
    if (fault := health[gpu]) is not None:
        return f"{gpu} is unhealthy: {fault}"
    return f"{gpu} is held by pod {holder.key}" if holder != own else None


def _by_gpus(gpus: Sequence[GpuUuid], pods: Sequence[PodRecord], node: str) -> Identified | Refusal:
    """Find the container whose GPUs these are: no two live containers were given the same."""
    owners = []
    for pod in pods:
        if not pod.live or pod.leaving or pod.init_asks or not pod.asks:
            continue
        try:
            placed = placed_gpus(pod, node)
        except PlacementError:
            continue  # cannot be the owner: nothing was chosen for it
        owners += [
            Identified(pod, ask.container, placed[ask.container])
            for ask in pod.asks
            if set(placed.get(ask.container, ())) == set(gpus)
        ]
    if len(owners) == 1:
        return owners[0]
    if not owners:
        return Refusal(f"no pod of this node was given exactly {_names(gpus)}")
    names = ", ".join(str(owner.pod.key) for owner in owners)
    return Refusal(f"{_names(gpus)} were given to several pods: {names}")


def _names(gpus: Sequence[GpuUuid]) -> str:
    return " ".join(sorted(gpus))
