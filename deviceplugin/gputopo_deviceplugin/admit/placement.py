"""Finds the GPUs that the extender has chosen for a pod's containers. Pure functions."""

from collections.abc import Mapping

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import SCHEDULER_NAME
from gputopo.errors import InvalidInputError
from gputopo.topology.model import GpuUuid
from gputopo_kube.gpu_containers import GpuContainer
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


def lasting_container(pod: PodView, container: str) -> GpuContainer | None:
    """Return the sidecar or application container that keeps the GPUs of ``container``.

    An ordinary init container shares the GPUs of the next sidecar or application container. For
    example, the init container A with 2 GPUs comes before the application container B with 4 GPUs.
    The result for A is B. The result for B is B. The result is None if ``container`` requests no
    GPUs, or if no sidecar or application container with GPUs follows an init container.
    """
    names = [each.name for each in pod.containers]
    if container not in names:
        return None
    following = pod.containers[names.index(container) :]
    return next((each for each in following if each.keeps_gpus), None)


def candidate_gpus(pod: PodView, container: str, node: str) -> tuple[GpuUuid, ...]:
    """Return the GPUs that the extender has chosen for a container, in rank order.

    For an ordinary init container, the result has all GPUs of its ``lasting_container``. The init
    container may request fewer, and then gets only some of these GPUs.

    Raises:
        PlacementError: the annotation is not valid, or has the wrong number of GPUs.
    """
    requested = next(each for each in pod.containers if each.name == container)
    lasting = lasting_container(pod, container)
    if lasting is None or requested.gpus > lasting.gpus:
        later = "no sidecar or application container after it requests any"
        if lasting is not None:
            later = f"container {lasting.name} after it requests {lasting.gpus}"
        raise PlacementError(
            f"pod {pod.key}: init container {container} requests {requested.gpus} GPUs, but "
            f"{later}; an init container may not request more GPUs than the next sidecar or "
            "application container"
        )
    gpus = intended_gpus(pod, node).get(lasting.name, ())
    if len(set(gpus)) != lasting.gpus:
        raise PlacementError(
            f"pod {pod.key}: container {lasting.name} requests {lasting.gpus} GPUs, but the "
            f"annotation of the pod names {len(set(gpus))}"
        )
    return gpus
