"""Makes a ``Decision`` for the verb bind, and compares it with newer views of the pod.

The binder calls this module with a ``Match``: the GPU that the policy has chosen for each rank.
"""

from gputopo.api.annotations import GpusAnnotation
from gputopo.api.bound_request import request_record
from gputopo.api.names import (
    GPUS_ANNOTATION,
    PLACEMENT_ANNOTATION,
    POSTPONED_ANNOTATION,
    RETRY_ANNOTATION,
)
from gputopo.api.replay import RecordedNodes
from gputopo.placement.model import Match, PlacementRequest
from gputopo.placement.paths import surroundings_on_node
from gputopo.topology.model import GpuMask, GpuUuid
from gputopo_cluster.claims import Claim
from gputopo_cluster.usage import NodeUsage
from gputopo_extender.state.decision import Decision
from gputopo_kube.pods import PodView
from gputopo_scheduling.record import (
    placement_annotation,
    placement_figures,
    replay_record,
    request_origin,
)
from gputopo_scheduling.restrictions import usable_gpus
from gputopo_scheduling.share_options import ChosenShare
from gputopo_scheduling.sharing_state import free_for
from gputopo_scheduling.surroundings import NOTHING_RUNS, NodeSurroundings


def decide(
    pod: PodView,
    request: PlacementRequest,
    match: Match,
    *,
    node: str,
    usage: NodeUsage,
    compared: RecordedNodes | None,
    running: NodeSurroundings = NOTHING_RUNS,
    shared: ChosenShare | None = None,
) -> Decision:
    """Return the decision that gives a pod the chosen GPUs.

    Args:
        pod: the pod.
        request: the request of its annotations.
        match: the chosen GPUs.
        node: name of the node.
        usage: usage of the node.
        compared: how the node compared with the other nodes in filter; None if this is unknown.
        running: the jobs that run on the node.
        shared: the share of the GPU that the pod gets; None for whole GPUs.

    Raises:
        AnnotationError: if the pod has an annotation with a value that is not allowed.
    """
    uuids = tuple(usage.topology.uuid_of[index] for index in match.gpus)
    devices = uuids if shared is None else (shared.share,)
    gpus = GpusAnnotation(
        uid=pod.uid,
        node=node,
        generation=usage.generation,
        containers=_by_container(pod, devices),
        request=request_record(pod.annotations),
    )
    around = surroundings_on_node(request, running.neighbours)
    figures = placement_figures(request, match, usage.topology, shared)
    free, usable = _offered(usage, pod, shared)
    replay = replay_record(
        request,
        request_origin(pod.annotations),
        match,
        usage.topology,
        free,
        nodes=compared,
        around=around,
        usable=usable,
    )
    if usage.numa is not None:
        policy = usage.numa.manager.policy.value
        replay = replay.model_copy(update={"topology_manager_policy": policy})
    sensitive = "sensitive" if request.sensitive else "insensitive"
    kind = f"{sensitive} {request.pattern.kind} of {request.size}"
    return Decision(
        claim=Claim(pod.uid, pod.namespace, pod.name, str(pod.version), node, devices),
        generation=usage.generation,
        match=match,
        reason=f"{request.policy} {kind} ({request.sensitivity_reason})",
        annotations={
            GPUS_ANNOTATION: gpus.dump(),
            PLACEMENT_ANNOTATION: placement_annotation(figures, replay),
        },
        shared=shared,
    )


def _offered(
    usage: NodeUsage, pod: PodView, shared: ChosenShare | None
) -> tuple[GpuMask, GpuMask | None]:
    """Return the free GPUs of the decision, and those that the pod may use; None for all."""
    if shared is None:
        return usage.free, usable_gpus(usage, pod)
    free = free_for(usage, pod, shared)
    usable = usable_gpus(usage.for_shares, pod) if shared.option is None else None
    return free, None if usable is None else GpuMask(usable & free)


def is_unchanged(pod: PodView, before: PodView) -> bool:
    """Return whether a decision made for ``before`` is valid for ``pod``, a newer view of the pod.

    The annotations must be equal, because another extender invalidates a Binding by changing an
    annotation of its pod.
    """
    return _decisive(pod) == _decisive(before) and pod.version > before.version


def _decisive(pod: PodView) -> tuple[object, ...]:
    # The two annotations of a wait change nothing, and no extender invalidates a Binding with them.
    annotations = {
        name: text
        for name, text in pod.annotations.items()
        if name not in {POSTPONED_ANNOTATION, RETRY_ANNOTATION}
    }
    return (pod.uid, pod.node, pod.live, pod.containers, annotations)


def _by_container(pod: PodView, uuids: tuple[GpuUuid, ...]) -> dict[str, list[str]]:
    """Return the GPUs of each container. The first container gets the first ranks."""
    remaining = iter(uuids)
    return {
        container.name: [next(remaining) for _ in range(container.gpus)]
        for container in pod.gpu_keepers
    }
