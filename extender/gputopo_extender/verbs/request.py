"""What a pod asks for, read from its containers and annotations."""

from dataclasses import dataclass

from gputopo.api.annotations import AnnotationError, PodRequest, parse_request
from gputopo.api.enums import PatternKind, PolicyName
from gputopo.api.names import EDGES_ANNOTATION, MAX_GPUS_PER_POD, PATTERN_ANNOTATION
from gputopo.patterns.model import Pattern, PatternError, build
from gputopo.placement.model import PlacementRequest
from gputopo.sensitivity.resolve import resolve
from gputopo_extender.pods import ContainerAsk, PodRecord


@dataclass(frozen=True, slots=True)
class Shape:
    """What of an ask decides what a node can offer; pods alike have equal ones."""

    request: PlacementRequest
    policy: PolicyName

    @property
    def size(self) -> int:
        """Number of GPUs asked for."""
        return self.request.pattern.size


@dataclass(frozen=True, slots=True)
class Ask:
    """A pod's wish: all its containers' GPUs as one match on one node.

    Attributes:
        shape: pattern and sensitivity; and the pod's policy, else the configured one.
        sensitivity_reason: why the request counts as sensitive or not.
    """

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerAsk, ...]
    shape: Shape
    sensitivity_reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod cannot be placed anywhere; names the field or annotation, value and remedy."""

    reason: str


def read(pod: PodRecord, *, resource: str, default_policy: PolicyName) -> Ask | Refusal:
    """Return what the pod asks for, or why it cannot be had on any node."""
    if pod.refusal is not None:
        return Refusal(pod.refusal)
    size = sum(ask.gpus for ask in pod.asks)
    if size > MAX_GPUS_PER_POD:
        return Refusal(f"{resource}: {size} in one pod, allowed are 1..{MAX_GPUS_PER_POD}")
    try:
        wish = parse_request(pod.annotations)
        pattern = _pattern(wish, size)
    except AnnotationError as error:
        return Refusal(str(error))
    resolved = resolve(wish.sensitivity, gpus=size)
    return Ask(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        containers=pod.asks,
        shape=Shape(
            request=PlacementRequest(pattern=pattern, sensitive=resolved.sensitive),
            policy=wish.policy or default_policy,
        ),
        sensitivity_reason=resolved.reason,
    )


def _pattern(wish: PodRequest, size: int) -> Pattern:
    try:
        return build(wish.pattern, size, wish.edges)
    except PatternError as error:
        custom = wish.pattern is PatternKind.CUSTOM
        raise AnnotationError(
            f"{EDGES_ANNOTATION if custom else PATTERN_ANNOTATION}: {error}"
        ) from None
