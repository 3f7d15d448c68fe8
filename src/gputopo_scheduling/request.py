"""Makes the placement request of a pod from its containers and annotations.

Every verb calls this module. A pod with an invalid request is rejected with the reason.
"""

from gputopo.api.annotations import AnnotationError
from gputopo.api.known_facts import FactsAnnotation, parse_known_facts
from gputopo.api.measuring import parse_measuring
from gputopo.api.names import EDGES_ANNOTATION, PATTERN_ANNOTATION
from gputopo.api.request import RequestAnnotations, parse_request, require_utility
from gputopo.api.shares import parse_sharing, share_resource
from gputopo.api.waiting import parse_max_wait
from gputopo.patterns.declared import resolve_pattern
from gputopo.patterns.model import MAX_GPUS_PER_POD, Pattern, PatternError, PatternKind, build
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.sensitivity.resolve import resolve_sensitivity
from gputopo_kube.gpu_containers import UNKNOWN_COUNT, ContainerKind
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import Misfit, MisfitKind


def placement_request(
    pod: PodView, *, resource: str, default_policy: PolicyName
) -> PlacementRequest | Misfit:
    """Return one request for the GPUs of all application containers and sidecars of a pod.

    If the pod is invalid, return a misfit that names the field or annotation and the remedy.
    """
    if reason := _unusable_containers(pod, resource) or _unusable_shares(pod, resource):
        return Misfit(MisfitKind.REJECTED, reason)
    size = sum(container.gpus for container in pod.gpu_keepers)
    if size > MAX_GPUS_PER_POD:
        return Misfit(
            MisfitKind.REJECTED,
            f"{resource}: {size} in one pod; request 1..{MAX_GPUS_PER_POD}",
        )
    facts = parse_known_facts(pod.annotations)
    try:
        annotated = parse_request(pod.annotations)
        # Parse these too, so that a pod with a wrong value is rejected here.
        parse_measuring(pod.annotations)
        parse_max_wait(pod.annotations)
        parse_sharing(pod.annotations)
        pattern, pattern_fact = _pattern(annotated, facts, size)
        if annotated.min_utility_percent is not None:
            require_utility(annotated.policy or default_policy)
    except AnnotationError as error:
        return Misfit(MisfitKind.REJECTED, str(error))
    if facts is None:
        resolved, fact = resolve_sensitivity(annotated.sensitivity, gpus=size), None
    else:
        resolved, fact = facts.resolve(annotated.sensitivity, size)
    return PlacementRequest(
        pattern,
        resolved.sensitive,
        annotated.policy or default_policy,
        sensitivity_reason=resolved.reason,
        fact=fact,
        pattern_fact=pattern_fact,
        min_utility_percent=annotated.min_utility_percent,
    )


def _unusable_containers(pod: PodView, resource: str) -> str | None:
    """Return why no node can take the containers, or None if their GPU counts are valid."""
    for each in pod.containers:
        if each.gpus >= UNKNOWN_COUNT:
            return (
                f"{resource} in container {each.name!r}: not a whole number below {UNKNOWN_COUNT}"
            )
    for each in pod.containers:
        # kubelet passes the init container's GPUs on to the next container that keeps its GPUs. If
        # that container requests fewer GPUs, kubelet chooses at random which GPUs to leave out.
        keeper = pod.keeper_of(each)
        most = keeper.gpus if keeper else 0
        if each.gpus > most:
            after = f"container {keeper.name!r} after it" if keeper else "each container after it"
            return (
                f"{resource} in init container {each.name!r}: {each.gpus} requested, but {after} "
                f"keeps only {most} GPUs: request at most {most}"
            )
    return None


def _unusable_shares(pod: PodView, resource: str) -> str | None:
    """Return why no node can take the requested shares, or None if the pod may have them."""
    shares = [each for each in pod.containers if each.shared]
    name = share_resource(resource)
    if not shares:
        return None
    if len(shares) < len(pod.containers):
        return f"{name}: requested together with {resource}; request only one of them"
    if len(shares) > 1 or shares[0].gpus > 1 or shares[0].kind is not ContainerKind.APPLICATION:
        return f"{name}: request 1 in one container of the pod, which is in spec.containers"
    return None


def _pattern(
    annotated: RequestAnnotations, facts: FactsAnnotation | None, size: int
) -> tuple[Pattern, str | None]:
    """Return the pattern and, as text, the fact from which it was derived."""
    resolved, fact = resolve_pattern(annotated.pattern), None
    if facts is not None:
        resolved, fact = facts.resolve_pattern(annotated.pattern, size)
    try:
        return build(resolved.kind, size, annotated.edges), fact
    except PatternError as error:
        custom = resolved.kind is PatternKind.CUSTOM
        raise AnnotationError(
            f"{EDGES_ANNOTATION if custom else PATTERN_ANNOTATION}: {error}"
        ) from None
