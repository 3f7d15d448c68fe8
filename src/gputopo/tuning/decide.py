"""Decides which pods of a node are resized next, and what the operator records about them.

The decision depends only on the current state: the spec and the status of the pods, and the records
in their annotations. So an operator that was killed at any point, or a second operator, continues
correctly.

A decision has one of two results. If the newest resize of a pod has succeeded or failed, the plan
only writes this result into the record; after a failure it also restores the former amounts. If
there is no new result, the plan resizes pods to their targets. So no result is missing from the
records when the next decision computes the targets.

Example: a node has 8 CPUs, and two pods with 4 CPUs each. Pod A gets 6 CPUs and pod B gets 2.

1. The plan raises A, then cuts B. Kubelet defers the raise until the cut is in effect.
2. Both resizes are in effect. The plan marks both records as done.
3. The targets equal the amounts of the pods. The plan is empty.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from gputopo.tuning.capacity import AmountChange, fitting
from gputopo.tuning.faults import finding
from gputopo.tuning.model import NodePlan, PodResize, RecordUpdate, Target, TunedNode, TunedPod
from gputopo.tuning.pods import (
    amounts_of,
    claimed_memory,
    floor_of,
    left_alone_because,
    within_bounds,
)
from gputopo.tuning.progress import raises, resize, was_never_written
from gputopo.tuning.waits import RESIZE_INTERVAL_SECONDS, seconds_since_resize, wait_left

AGAIN_SECONDS: Final = 1.0
"""When the operator decides again after it has learned how a resize has ended."""

POLL_SECONDS: Final = 5.0
"""How often the operator checks a resize that kubelet has not applied yet."""


def next_steps(node: TunedNode, chosen: Mapping[str, Target]) -> NodePlan:
    """Return what the operator does about the node now.

    Args:
        node: all that the decision depends on.
        chosen: the targets of the pods, by UID. A pod without a target is not resized.
    """
    found = [step for pod in node.pods if (step := finding(pod, node.now)) is not None]
    if found:
        return NodePlan(tuple(sorted(found, key=_order)), AGAIN_SECONDS)
    changes = _changes(node, chosen)
    resizes = tuple(_step(change, node.now) for change in fitting(node, changes))
    changed = {step.uid for step in resizes}
    ended = tuple(_abandoned(pod for pod in node.pods if pod.uid not in changed))
    return NodePlan((*resizes, *ended), _check_after(node, busy=bool(resizes)))


def _order(step: PodResize | RecordUpdate) -> bool:
    """Sort raises before other steps."""
    return not (isinstance(step, PodResize) and raises(step.record.last, step.record.target))


def _changes(node: TunedNode, chosen: Mapping[str, Target]) -> list[AmountChange]:
    """Return the changes of amounts; pods that have less than their floor come first."""
    changes = []
    for pod in node.pods:
        target = chosen.get(pod.uid)
        if target is None or left_alone_because(pod):
            continue
        amounts = within_bounds(pod, target.amounts, node)
        change = AmountChange(pod, amounts, target.reason)
        if amounts != amounts_of(pod) and not (_in_flight(pod) and change.is_raise):
            changes.append(change)
    return sorted(changes, key=lambda change: not _has_too_little(change.pod))


def _has_too_little(pod: TunedPod) -> bool:
    now = amounts_of(pod)
    return now.memory < claimed_memory(pod) or raises(now, floor_of(pod))


def _in_flight(pod: TunedPod) -> bool:
    """Return whether kubelet has not yet carried out the newest resize.

    Until then the pod is not raised again, but it can be cut, for instance for a pending pod.
    """
    if pod.state.allocated not in {None, pod.spec.request}:
        return True
    return pod.record is not None and not (pod.record.done or was_never_written(pod, pod.record))


def _is_awaited(pod: TunedPod) -> bool:
    """Return whether the operator still waits for kubelet to carry out the newest resize."""
    if pod.record is not None and pod.record.pinned:
        return not (pod.record.done or pod.obstacle or pod.measuring)
    return not left_alone_because(pod) and _in_flight(pod)


def _step(change: AmountChange, now: datetime) -> PodResize:
    pod = change.pod
    step = resize(pod, change.amounts, now, reason=change.reason)
    # After a measurement with several CPU limits, the rate with the own limit is not steady yet.
    rate = pod.measured_micro_steps_per_second or pod.profiled_micro_steps_per_second
    record = step.record.model_copy(update={"before_micro_steps_per_second": rate})
    return PodResize(step.uid, record, step.spec)


def _abandoned(pods: Iterable[TunedPod]) -> Iterable[RecordUpdate]:
    """End each resize that is recorded, but not in the pod's spec and not needed any more."""
    for pod in pods:
        record = pod.record
        if record is None or left_alone_because(pod) or not was_never_written(pod, record):
            continue
        reason = "the operator was restarted before the resize; the pod keeps its amounts"
        ended = {"target": record.last, "done": True, "reason": reason}
        yield RecordUpdate(pod.uid, record.model_copy(update=ended))


def _check_after(node: TunedNode, *, busy: bool) -> float | None:
    """Return the seconds until the next decision without an event; None if no wait is running.

    The targets may change when a wait after a resize is over.
    """
    if busy or any(_is_awaited(pod) for pod in node.pods):
        return POLL_SECONDS
    records = [pod.record for pod in node.pods if pod.record is not None]
    waits = [wait_left(record, node.now) for record in records]
    waits += [
        RESIZE_INTERVAL_SECONDS - seconds_since_resize(record, node.now) for record in records
    ]
    return min((wait for wait in waits if wait > 0), default=None)
