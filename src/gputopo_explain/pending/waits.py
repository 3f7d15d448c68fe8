"""Explains why a pending pod waits for a better placement, with the functions of the extender."""

from collections.abc import Sequence

from gputopo.api.waiting import parse_postponed
from gputopo.placement.model import PlacementRequest
from gputopo.runtime.times import timestamp_of
from gputopo_explain.objects import ClusterObjects
from gputopo_explain.pending.model import PlacementWait
from gputopo_explain.requests import with_surroundings
from gputopo_explain.snapshot import ClusterSnapshot
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView
from gputopo_scheduling.node_fits import evaluate_states
from gputopo_scheduling.waiting import decide_pod_wait, idle_key, wait_order, wait_rule, wait_terms


def placement_wait(
    pod: PodView, request: PlacementRequest, objects: ClusterObjects, fitting: Sequence[str]
) -> PlacementWait | None:
    """Return why a pod waits for a better placement; None if it does not.

    Args:
        pod: the pending pod.
        request: its request.
        objects: the objects of the cluster.
        fitting: the nodes on which the pod fits now.
    """
    rule = wait_rule(request)
    if rule is None:
        return None
    terms = wait_terms(pod, rule, default_seconds=objects.installation.max_wait_seconds)
    request = with_surroundings(request, pod, objects)
    found = objects.snapshot.evaluate(request, fitting, objects.surroundings, pod)
    idle = evaluate_states({idle_key(key) for key in found.keys}, request).values()
    wait = decide_pod_wait(rule, terms, found, idle, objects.now.timestamp())
    if wait is None or not wait.waits:
        return None
    record = parse_postponed(pod.annotations, pod.uid)
    return PlacementWait(
        value=rule.name,
        target=wait.decision.target_permille,
        now=wait.outlook.now_permille,
        then=wait.outlook.then_permille,
        since=record.since if record else None,
        until=timestamp_of(terms.until or 0),
        earlier=earlier_pods(pod, objects.snapshot),
    )


def earlier_pods(pod: PodView, snapshot: ClusterSnapshot) -> list[ObjectKey]:
    """Return the postponed pods that come before a pod, in order."""
    own = wait_order(pod)
    others = [
        each
        for each in snapshot.pods.values()
        if each.live
        and each.node is None
        and parse_postponed(each.annotations, each.uid) is not None
        and wait_order(each) < own
    ]
    return [each.key for each in sorted(others, key=wait_order)]
