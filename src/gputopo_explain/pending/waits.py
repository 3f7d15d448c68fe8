"""Explains why a pending pod waits for a better placement, with the functions of the extender."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gputopo.api.waiting import as_fraction, parse_postponed
from gputopo.placement.model import PlacementRequest
from gputopo.runtime.times import timestamp_of
from gputopo_explain.objects import ClusterObjects
from gputopo_explain.pending.model import PlacementWait
from gputopo_explain.snapshot import ClusterSnapshot
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView
from gputopo_scheduling.node_fits import evaluate_states
from gputopo_scheduling.waiting import (
    PodWait,
    decide_pod_wait,
    idle_key,
    postponed,
    wait_order,
    wait_rule,
    wait_terms,
)


class WaitOutlook(NamedTuple):
    """What the least value that a pod accepts means for the nodes on which it fits now.

    Attributes:
        accepted: the nodes on which the pod would be placed now.
        below: why the pod would not be placed on the other nodes.
        wait: why the pod waits; None if it does not.
    """

    accepted: Sequence[str]
    below: str = ""
    wait: PlacementWait | None = None


def wait_outlook(
    pod: PodView, request: PlacementRequest, objects: ClusterObjects, fitting: Sequence[str]
) -> WaitOutlook:
    """Return on which nodes a pod would be placed now, and whether it waits for better ones.

    Earlier postponed pods, to which the extender may offer these nodes now, are not considered.

    Args:
        pod: the pending pod. If its creation is unknown, it is assumed to be created now.
        request: its request.
        objects: the objects of the cluster.
        fitting: the nodes on which the pod fits now.
    """
    rule = wait_rule(request)
    if rule is None:
        return WaitOutlook(fitting)
    now = objects.now.timestamp()
    if pod.created is None:
        pod = replace(pod, created=now)
    terms = wait_terms(pod, rule, default_seconds=objects.installation.max_wait_seconds)
    request = objects.with_surroundings(request, pod)
    found = objects.snapshot.evaluate(request, fitting, objects.surroundings, pod)
    idle = evaluate_states({idle_key(key) for key in found.keys}, request).values()
    wait = decide_pod_wait(rule, terms, found, idle, now)
    if wait is None:
        return WaitOutlook(fitting)
    below = f"{rule.name} below {as_fraction(wait.decision.target_permille)}"
    accepted = postponed(found, wait, {}).fitting()
    return WaitOutlook(accepted, below, _described(pod, wait, objects) if wait.waits else None)


def _described(pod: PodView, wait: PodWait, objects: ClusterObjects) -> PlacementWait:
    record = parse_postponed(pod.annotations, pod.uid)
    return PlacementWait(
        value=wait.rule.name,
        target=wait.decision.target_permille,
        now=wait.outlook.now_permille,
        then=wait.outlook.then_permille,
        since=record.since if record else None,
        until=timestamp_of(wait.terms.until or 0),
        earlier=earlier_pods(pod, objects.snapshot),
    )


def earlier_pods(pod: PodView, snapshot: ClusterSnapshot) -> list[ObjectKey]:
    """Return the postponed pods that come before a pod, in order."""
    own = wait_order(pod)
    others = [
        each
        for each in snapshot.pods
        if each.live
        and each.node is None
        and parse_postponed(each.annotations, each.uid) is not None
        and wait_order(each) < own
    ]
    return [each.key for each in sorted(others, key=wait_order)]
