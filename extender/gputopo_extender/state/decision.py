"""Makes a ``Decision`` for the verb bind: pod, node, exact GPUs, and annotations of the Binding.

The binder calls this module with a ``Match``: the GPU that the policy has chosen for each rank.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gputopo.api.annotations import GpusAnnotation, PlacementAnnotation
from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.bandwidth.effective import effective_table
from gputopo.bandwidth.models import PHYSICAL
from gputopo.placement.model import Match, PlacementRequest
from gputopo.topology.model import GpuUuid, NodeTopology
from gputopo_kube.pods import PodView
from gputopo_scheduling.claims import Claim
from gputopo_scheduling.usage import NodeUsage


@dataclass(frozen=True, slots=True)
class Decision:
    """The GPUs of one node for one pod.

    Attributes:
        claim: the pod, its version, the node and the GPUs. The Binding fails if the pod has another
            version.
        generation: generation of the GPUTopology.
        reason: policy, pattern and bandwidth sensitivity, for the log.
        annotations: annotations that the Binding writes to the pod.
    """

    claim: Claim
    generation: int
    match: Match
    reason: str
    annotations: Mapping[str, str]


def decide(
    pod: PodView, request: PlacementRequest, match: Match, *, node: str, usage: NodeUsage
) -> Decision:
    """Return the decision that gives a pod the GPUs of ``match``."""
    uuids = tuple(usage.topology.uuid_of[index] for index in match.gpus)
    gpus = GpusAnnotation(
        uid=pod.uid,
        node=node,
        generation=usage.generation,
        containers=_by_container(pod, uuids),
    )
    sensitive = "sensitive" if request.sensitive else "insensitive"
    kind = f"{sensitive} {request.pattern.kind} of {request.size}"
    return Decision(
        claim=Claim(pod.uid, pod.namespace, pod.name, str(pod.version), node, uuids),
        generation=usage.generation,
        match=match,
        reason=f"{request.policy} {kind} ({request.sensitivity_reason})",
        annotations={
            GPUS_ANNOTATION: gpus.dump(),
            PLACEMENT_ANNOTATION: _figures(request, match, usage.topology).dump(),
        },
    )


def is_unchanged(pod: PodView, before: PodView) -> bool:
    """Return whether a decision made for ``before`` is valid for ``pod``, a newer view of the pod.

    The annotations must be equal, because another extender invalidates a Binding by changing an
    annotation of its pod.
    """
    return _decisive(pod) == _decisive(before) and pod.version > before.version


def _decisive(pod: PodView) -> tuple[object, ...]:
    return (pod.uid, pod.node, pod.live, pod.containers, pod.annotations)


def _by_container(pod: PodView, uuids: tuple[GpuUuid, ...]) -> dict[str, list[str]]:
    """Return the GPUs of each container. The first container gets the first ranks."""
    remaining = iter(uuids)
    return {
        container.name: [next(remaining) for _ in range(container.gpus)]
        for container in pod.gpu_keepers
    }


def _figures(
    request: PlacementRequest, match: Match, topology: NodeTopology
) -> PlacementAnnotation:
    worst_and_best = effective_table(topology, request.pattern, PHYSICAL).worst_and_best
    return PlacementAnnotation(
        policy=request.policy,
        pattern=request.pattern.kind,
        sensitive=request.sensitive,
        reason=request.sensitivity_reason,
        fact=request.fact,
        model=match.model,
        effective_mb_per_s=match.effective_mb_per_s,
        physical_mb_per_s=match.common_mb_per_s,
        physical_worst_mb_per_s=worst_and_best[0] if worst_and_best else None,
        physical_best_mb_per_s=worst_and_best[1] if worst_and_best else None,
        aggregate_mb_per_s=match.aggregate_mb_per_s,
        preserved_mb_per_s=match.preserved_mb_per_s,
        exact=match.exact,
        aggregate_bound_mb_per_s=None if match.exact else match.bound_mb_per_s,
    )
