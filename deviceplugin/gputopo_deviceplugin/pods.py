"""The GPUs that the extender has chosen for the containers of a pod of this node. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import SCHEDULER_NAME
from gputopo.errors import InvalidInputError
from gputopo.topology.model import GpuUuid
from gputopo_kube.own_gpus import AnnotationOwnerError, own_gpus
from gputopo_kube.pods import GpuContainer, PodView


class PlacementError(InvalidInputError):
    """A pod whose placement annotation is missing, cannot be parsed or is not its own."""


@dataclass(frozen=True, slots=True)
class PodsVersion:
    """How far the changes of this node's pods are known, as resource versions.

    Attributes:
        newest: of the list, or of the newest change since.
        needed: of the newest change that a published status must account for: a pod with GPUs
            ended or was deleted, or changes may have been missed.
    """

    newest: int
    needed: int

    def later(self, version: int) -> "PodsVersion":
        """Return the version after a change that no status must account for.

        Versions go back when etcd is restored from a snapshot.
        """
        return PodsVersion(version, min(version, self.needed))


def placed_gpus(pod: PodView, node: str) -> Mapping[str, tuple[GpuUuid, ...]]:
    """Return the GPUs that the extender chose for each container, in rank order.

    Raises:
        PlacementError: where it did not choose for this very pod on this node; the message
            says what to do.
    """
    try:
        annotation = own_gpus(pod)
    except AnnotationOwnerError as error:
        raise PlacementError(
            f"pod {pod.key}: annotation {error}; leave this annotation to the scheduler"
        ) from None
    except AnnotationError as error:
        raise PlacementError(f"pod {pod.key}: annotation {error}") from None
    if annotation is None:
        raise PlacementError(
            f"pod {pod.key} was not placed by gputopo: set schedulerName: {SCHEDULER_NAME}"
        )
    if pod.node != node:
        raise PlacementError(f"pod {pod.key} is bound to node {pod.node}, not to this node, {node}")
    return {
        container: tuple(GpuUuid(uuid) for uuid in uuids)
        for container, uuids in annotation.containers.items()
    }


def keeper_of(pod: PodView, container: str) -> GpuContainer | None:
    """Return the container whose GPUs ``container`` uses: its own, or those of the next keeper.

    None where no container after an ordinary init container keeps any, or it asks for none.
    """
    names = [ask.name for ask in pod.containers]
    if container not in names:
        return None
    return next((ask for ask in pod.containers[names.index(container) :] if ask.keeps_gpus), None)


def entitled_gpus(pod: PodView, container: str, node: str) -> tuple[GpuUuid, ...]:
    """Return the GPUs out of which a container may get its own, in rank order.

    They are its own, all of them, or for an ordinary init container those that it borrows from.

    Raises:
        PlacementError: as ``placed_gpus`` does, and where there is nothing to borrow from.
    """
    ask = next(ask for ask in pod.containers if ask.name == container)
    keeper = keeper_of(pod, container)
    if keeper is None or ask.gpus > keeper.gpus:
        later = f"container {keeper.name} keeps {keeper.gpus}" if keeper else "none keeps any"
        raise PlacementError(
            f"pod {pod.key}: init container {container} asks for {ask.gpus} GPUs, and of the "
            f"containers after it {later}: ask for no more than the next one that keeps its GPUs"
        )
    gpus = placed_gpus(pod, node).get(keeper.name, ())
    if len(set(gpus)) != keeper.gpus:
        raise PlacementError(
            f"pod {pod.key}: container {keeper.name} asks for {keeper.gpus} GPUs and was "
            f"given {len(set(gpus))}"
        )
    return gpus
