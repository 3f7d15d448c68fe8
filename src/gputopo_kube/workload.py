"""The workload of a pod, by which its measurements and its slowdown are known."""

from gputopo.api.annotations import AnnotationError
from gputopo.api.measuring import parse_profile_name
from gputopo_kube.pods import PodView


def workload_name(pod: PodView) -> str:
    """Return ``NAMESPACE/PROFILE``; ``NAMESPACE/`` if the pod names no GPUProfile."""
    try:
        return f"{pod.namespace}/{parse_profile_name(pod.annotations) or ''}"
    except AnnotationError:
        return f"{pod.namespace}/"
