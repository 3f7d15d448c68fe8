"""Finds the GPUs that the extender has chosen for a pod's containers. Pure functions."""

from collections.abc import Mapping

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import SCHEDULER_NAME
from gputopo.errors import InvalidInputError
from gputopo.topology.model import GpuUuid
from gputopo_kube.own_gpus import AnnotationOwnerError, own_gpus
from gputopo_kube.pods import PodView


class PlacementError(InvalidInputError):
    """The annotation ``gputopo.io/gpus`` is missing, not valid, or does not fit this pod."""


def intended_gpus(pod: PodView, node: str) -> Mapping[str, tuple[GpuUuid, ...]]:
    """Return the GPUs that the extender has chosen for each container, in rank order.

    Raises:
        PlacementError: the extender has chosen no GPUs for this pod on this node.
    """
    try:
        annotation = own_gpus(pod)
    except AnnotationOwnerError as error:
        raise PlacementError(
            f"pod {pod.key}: annotation {error}; create the pod without this annotation"
        ) from None
    except AnnotationError as error:
        raise PlacementError(f"pod {pod.key}: annotation {error}") from None
    if annotation is None:
        raise PlacementError(
            f"pod {pod.key} was not placed by gputopo: set schedulerName: {SCHEDULER_NAME}"
            " and no nodeName"
        )
    if pod.node != node:
        raise PlacementError(f"pod {pod.key} is bound to node {pod.node}, not to this node, {node}")
    return {
        container: tuple(GpuUuid(uuid) for uuid in uuids)
        for container, uuids in annotation.containers.items()
    }


def candidate_gpus(pod: PodView, container: str, node: str) -> tuple[GpuUuid, ...]:
    """Return the GPUs that the extender has chosen for a container, in rank order.

    For an ordinary init container, the result has all GPUs of the container that keeps them later.
    The init container may request fewer, and then gets only some of these GPUs.

    Raises:
        PlacementError: the annotation is not valid, or has the wrong number of GPUs.
    """
    requested = next(each for each in pod.containers if each.name == container)
    keeper = pod.keeper_of(requested)
    if keeper is None or requested.gpus > keeper.gpus:
        later = "no sidecar or application container after it requests any"
        if keeper is not None:
            later = f"container {keeper.name} after it requests {keeper.gpus}"
        raise PlacementError(
            f"pod {pod.key}: init container {container} requests {requested.gpus} GPUs, but "
            f"{later}; an init container may not request more GPUs than the next sidecar or "
            "application container"
        )
    gpus = intended_gpus(pod, node).get(keeper.name, ())
    if len(set(gpus)) != keeper.gpus:
        raise PlacementError(
            f"pod {pod.key}: container {keeper.name} requests {keeper.gpus} GPUs, but the "
            f"annotation of the pod names {len(set(gpus))}"
        )
    return gpus
