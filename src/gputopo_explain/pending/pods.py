"""Explains why one pod is pending."""

from dataclasses import replace
from typing import Final

from gputopo.placement.model import PlacementRequest
from gputopo_explain.machines import Obstacle, requests_of, unchecked_rules
from gputopo_explain.objects import ClusterObjects
from gputopo_explain.pending.model import (
    PendingState,
    PodExplanation,
    SchedulerMessage,
)
from gputopo_explain.pending.reasons import NodeReasons, PodNeeds, grouped, node_reasons
from gputopo_explain.pending.search import ReleaseSearch
from gputopo_explain.pending.summaries import (
    WAIT_REMEDY,
    impossible,
    postponed,
    rejected_remedy,
    waiting,
)
from gputopo_explain.pending.waits import wait_outlook
from gputopo_explain.shared_gpus import share_outlooks
from gputopo_explain.text import counted
from gputopo_kube.document import Document
from gputopo_kube.podmodel import PodObject, parse_pod_object
from gputopo_kube.pods import PodView, view_of
from gputopo_scheduling.evaluation import Misfit
from gputopo_scheduling.request import placement_request

_TRIES_AGAIN: Final = (
    "wait: kube-scheduler tries the pod again after a change in the cluster, at the latest after "
    "5 minutes"
)


def explain_pod(pod: Document, objects: ClusterObjects) -> PodExplanation:
    """Explain why a pod is not bound to a node.

    Raises:
        PodError: if the object is not a valid pod; the message names the field.
    """
    parsed = parse_pod_object(pod)
    found = _explained(view_of(parsed, objects.installation.resource), pod, objects)
    message = _message(parsed)
    if message is not None and found.state is PendingState.FITS:
        found = replace(found, remedy=_TRIES_AGAIN)
    return replace(found, message=message)


def _message(pod: PodObject) -> SchedulerMessage | None:
    condition = pod.status.unschedulable
    if condition is None:
        return None
    since = condition.last_transition_time
    return SchedulerMessage(condition.reason or "", condition.message or "", since)


def _explained(view: PodView, pod: Document, objects: ClusterObjects) -> PodExplanation:
    if found := _of_others(view, pod, objects):
        return found
    settings = objects.installation
    request = placement_request(
        view, resource=settings.resource, default_policy=settings.default_policy
    )
    if isinstance(request, Misfit):
        summary, remedy = f"rejected on every node: {request.reason}", rejected_remedy(view, pod)
        return PodExplanation(view.key, PendingState.REJECTED, summary, remedy)
    return _held_back(view, pod, request, objects) or _by_nodes(view, pod, request, objects)


def _of_others(view: PodView, pod: Document, objects: ClusterObjects) -> PodExplanation | None:
    """Explain a pod that gputopo does not place; return None for other pods."""
    settings = objects.installation
    scheduler = pod["spec"].get("schedulerName") or "default-scheduler"
    if not view.containers:
        return PodExplanation(
            view.key,
            PendingState.NO_GPUS,
            f"no container requests {settings.resource}, so gputopo does not place the pod",
            f"to get GPUs, add {settings.resource} to the limits of a container",
        )
    if scheduler != settings.scheduler_name:
        return PodExplanation(
            view.key,
            PendingState.OTHER_SCHEDULER,
            f"spec.schedulerName: the pod is of the scheduler {scheduler!r}; "
            f"gputopo places only pods of {settings.scheduler_name!r}",
            f"create the pod again with schedulerName: {settings.scheduler_name}",
        )
    return None


def _held_back(
    view: PodView, pod: Document, request: PlacementRequest, objects: ClusterObjects
) -> PodExplanation | None:
    """Explain a pod for which kube-scheduler considers no nodes now; return None for others."""
    if gates := [str(each.get("name")) for each in pod["spec"].get("schedulingGates") or ()]:
        summary = f"spec.schedulingGates: kube-scheduler waits until {', '.join(gates)} is removed"
        return PodExplanation(view.key, PendingState.GATED, summary, request=request)
    claims = [claim.node for claim in objects.snapshot.claims if claim.uid == view.uid]
    if claims:
        summary = f"the extender is binding the pod to {claims[0]} now"
        return PodExplanation(view.key, PendingState.BINDING, summary, request=request)
    return None


def _by_nodes(
    view: PodView, pod: Document, request: PlacementRequest, objects: ClusterObjects
) -> PodExplanation:
    resource = objects.installation.resource
    needs = PodNeeds(request, requests_of(pod), pod["spec"], resource, view)
    reasons = node_reasons(needs, objects.snapshot, objects.machines)
    groups = grouped(reasons, objects.snapshot)
    common = PodExplanation(
        view.key,
        PendingState.FITS,
        _fits_text(len(reasons.fitting)),
        request=request,
        fitting=reasons.fitting,
        groups=groups,
        unchecked=unchecked_rules(pod["spec"]),
        shared_gpus=share_outlooks(view, _open_nodes(reasons), objects.snapshot),
    )
    if reasons.fitting:
        return _waiting(common, view, request, objects, reasons)
    if all(group.permanent for group in groups):
        summary, remedy = impossible(needs, reasons, objects)
        return replace(common, state=PendingState.IMPOSSIBLE, summary=summary, remedy=remedy)
    search = ReleaseSearch(view, needs, reasons, objects)
    releases = search.releases()
    return replace(
        common,
        state=PendingState.WAITING,
        summary=waiting(needs, releases, groups),
        releases=releases,
        preemption=search.preemption(),
    )


def _open_nodes(reasons: NodeReasons) -> list[str]:
    """Return the nodes that no rule of the pod or of the node excludes."""
    return sorted(
        {*reasons.fitting, *(node for node in reasons.obstacles if not reasons.is_permanent(node))}
    )


def _waiting(
    fits: PodExplanation,
    view: PodView,
    request: PlacementRequest,
    objects: ClusterObjects,
    reasons: NodeReasons,
) -> PodExplanation:
    """Return the explanation of a pod that fits, or of one that waits for a better placement."""
    found = wait_outlook(view, request, objects, reasons.fitting)
    rejected = [node for node in reasons.fitting if node not in {*found.accepted}]
    if rejected:
        below = (Obstacle(found.below, permanent=False),)
        obstacles = {**reasons.obstacles, **dict.fromkeys(rejected, below)}
        groups = grouped(NodeReasons(found.accepted, obstacles), objects.snapshot)
        summary = _fits_text(len(found.accepted))
        fits = replace(fits, fitting=found.accepted, groups=groups, summary=summary)
    if found.wait is None:
        return fits
    return replace(
        fits,
        state=PendingState.POSTPONED,
        summary=postponed(found.wait),
        remedy=WAIT_REMEDY,
        wait=found.wait,
    )


def _fits_text(nodes: int) -> str:
    return f"the pod fits {counted(nodes, 'node')} now"
