"""Makes the placement request of a pod from its containers and annotations.

Every verb calls it. A pod that cannot be placed on any node is rejected with the reason.
"""

from gputopo.api.annotations import AnnotationError, RequestAnnotations, parse_request
from gputopo.api.names import EDGES_ANNOTATION, PATTERN_ANNOTATION
from gputopo.patterns.model import MAX_GPUS_PER_POD, Pattern, PatternError, PatternKind, build
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.sensitivity.resolve import resolve
from gputopo_extender.pods import gpu_keepers, rejection
from gputopo_extender.verbs.evaluation import Misfit, MisfitKind
from gputopo_kube.pods import PodView


def placement_request(
    pod: PodView, *, resource: str, default_policy: PolicyName
) -> PlacementRequest | Misfit:
    """Return the request for all GPUs that the pod's containers keep, as one match.

    The reason of a misfit names the field or annotation, its value and the remedy.
    """
    if reason := rejection(pod, resource):
        return _rejected(reason)
    size = sum(container.gpus for container in gpu_keepers(pod))
    if size > MAX_GPUS_PER_POD:
        return _rejected(f"{resource}: {size} in one pod, allowed are 1..{MAX_GPUS_PER_POD}")
    try:
        annotated = parse_request(pod.annotations)
        pattern = _pattern(annotated, size)
    except AnnotationError as error:
        return _rejected(str(error))
    resolved = resolve(annotated.sensitivity, gpus=size)
    return PlacementRequest(
        pattern,
        resolved.sensitive,
        annotated.policy or default_policy,
        sensitivity_reason=resolved.reason,
    )


def _rejected(reason: str) -> Misfit:
    return Misfit(MisfitKind.REJECTED, reason)


def _pattern(annotated: RequestAnnotations, size: int) -> Pattern:
    try:
        return build(annotated.pattern, size, annotated.edges)
    except PatternError as error:
        custom = annotated.pattern is PatternKind.CUSTOM
        raise AnnotationError(
            f"{EDGES_ANNOTATION if custom else PATTERN_ANNOTATION}: {error}"
        ) from None
