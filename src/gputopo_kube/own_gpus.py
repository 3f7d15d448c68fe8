"""The rule which GPU annotation of a pod counts: its own."""

from gputopo.api.annotations import AnnotationError, GpusAnnotation, parse_gpus
from gputopo.api.names import GPUS_ANNOTATION
from gputopo_kube.pods import PodView


class AnnotationOwnerError(AnnotationError):
    """An annotation ``gputopo.io/gpus`` that was written for another pod or another node."""


def own_gpus(pod: PodView) -> GpusAnnotation | None:
    """Return the GPUs that the extender has chosen for this pod, None where it has chosen none.

    The annotation counts only where its UID and node are those of the pod: users can copy it.

    Raises:
        AnnotationError: where the annotation cannot be parsed.
        AnnotationOwnerError: where it was written for another pod or node.
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
                f"{GPUS_ANNOTATION}: {name}: {value} is not the pod's own, {own or 'none'}"
            )
    return annotation
