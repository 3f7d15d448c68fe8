"""Decides whether the GPU annotation of a pod was written for this pod and node."""

from gputopo.api.annotations import AnnotationError, GpusAnnotation, parse_gpus
from gputopo.api.names import GPUS_ANNOTATION
from gputopo_kube.pods import PodView


class AnnotationOwnerError(AnnotationError):
    """An annotation ``gputopo.io/gpus`` that was written for another pod or another node."""


def own_gpus(pod: PodView) -> GpusAnnotation | None:
    """Return the GPUs that the extender chose for this pod, or None if it has no annotation.

    A user can copy the annotation to another pod. So it must contain the UID and node of this pod.

    Raises:
        AnnotationError: if the annotation cannot be parsed.
        AnnotationOwnerError: if the annotation was written for another pod or node.
    """
    annotation = parse_gpus(pod.annotations)
    if annotation is None:
        return None
    for name, value, own in (
        ("uid", annotation.uid, pod.uid),
        ("node", annotation.node, pod.node),
    ):
        if value != own:
            raise AnnotationOwnerError(
                f"{GPUS_ANNOTATION}: {name} is {value}, but the pod's {name} is {own or 'none'}"
            )
    return annotation
