"""The decision that bind takes: exact GPUs on one node, and the annotations that say so."""

from collections.abc import Mapping
from dataclasses import dataclass

from gputopo.api.annotations import GpusAnnotation, PlacementAnnotation
from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.placement.model import Match, PlacementRequest
from gputopo.topology.model import GpuMask, GpuUuid, NodeTopology, mask_of
from gputopo_extender.pods import gpu_keepers
from gputopo_extender.state.claim import Claim
from gputopo_kube.pods import GpuContainer, PodKey, PodView


@dataclass(frozen=True, slots=True)
class Decision:
    """A pod, its node and its GPUs, before and after the Binding was written.

    Attributes:
        version: of the pod when it was read; the Binding is void for any other.
        generation: of the topology it was taken on.
        gpus: the GPUs as a set, by index.
        uuids: the GPUs in rank order.
        reason: by which rule they were chosen, for the log.
        annotations: what the Binding carries.
    """

    uid: str
    namespace: str
    name: str
    node: str
    version: str
    generation: int
    match: Match
    gpus: GpuMask
    uuids: tuple[GpuUuid, ...]
    reason: str
    annotations: Mapping[str, str]


def decide(
    pod: PodView,
    request: PlacementRequest,
    match: Match,
    *,
    node: str,
    generation: int,
    topology: NodeTopology,
) -> Decision:
    """Return the decision that gives a pod the GPUs of ``match``."""
    uuids = tuple(topology.uuid_of[index] for index in match.gpus)
    gpus = GpusAnnotation(
        uid=pod.uid, node=node, generation=generation, containers=_by_container(pod, uuids)
    )
    return Decision(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=node,
        version=str(pod.version),
        generation=generation,
        match=match,
        gpus=mask_of(match.gpus),
        uuids=uuids,
        reason=f"{request.policy} {_kind(request)} ({request.sensitivity_reason})",
        annotations={
            GPUS_ANNOTATION: gpus.dump(),
            PLACEMENT_ANNOTATION: _figures(request, match).dump(),
        },
    )


def claimed_pod(claim: Claim) -> PodView:
    """Return the view of a pod that was bound by a claim and no longer exists."""
    gpus = GpusAnnotation(
        uid=claim.uid, node=claim.node, generation=0, containers={"": list(claim.gpus)}
    )
    return PodView(
        uid=claim.uid,
        key=PodKey(claim.namespace, claim.name),
        version=int(claim.version),
        node=claim.node,
        phase="Failed",
        containers=(GpuContainer("", len(claim.gpus)),),
        annotations={GPUS_ANNOTATION: gpus.dump()},
    )


def is_unchanged(pod: PodView, before: PodView) -> bool:
    """Return whether nothing changed that a decision for the pod depends on.

    The annotations include the one by which other extenders call a Binding off.
    """
    return _decisive(pod) == _decisive(before) and pod.version > before.version


def _decisive(pod: PodView) -> tuple[object, ...]:
    return (pod.uid, pod.node, pod.live, pod.containers, pod.annotations)


def _by_container(pod: PodView, uuids: tuple[GpuUuid, ...]) -> dict[str, list[str]]:
    """Return the GPUs of each container: the first ranks go to the first container."""
    remaining = iter(uuids)
    return {
        container.name: [next(remaining) for _ in range(container.gpus)]
        for container in gpu_keepers(pod)
    }


def _kind(request: PlacementRequest) -> str:
    word = "sensitive" if request.sensitive else "insensitive"
    return f"{word} {request.pattern.kind} of {request.size}"


def _figures(request: PlacementRequest, match: Match) -> PlacementAnnotation:
    return PlacementAnnotation(
        policy=request.policy,
        pattern=request.pattern.kind,
        sensitive=request.sensitive,
        reason=request.sensitivity_reason,
        model=match.model,
        effective_mbps=match.effective_mb_per_s,
        aggregate_mbps=match.aggregate_mb_per_s,
        preserved_mbps=match.preserved_mb_per_s,
        exact=match.exact,
        aggregate_bound_mbps=None if match.exact else match.bound_mb_per_s,
    )
