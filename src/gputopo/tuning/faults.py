"""Finds out how the newest resize of a pod has ended, and what the operator learns from that.

Each rule returns a step that writes a new record. After a failure, the record has a bound, a wait
or ``pinned``, so that the operator does not try the same resize again.
"""

from datetime import datetime
from typing import Any

from gputopo.api.quantity import format_bytes
from gputopo.api.tuning import MAX_REASON, Amounts, TunedRecord
from gputopo.tuning.model import PodResize, RecordUpdate, TunedPod, TuningEvent
from gputopo.tuning.pods import amounts_of, floor_of, had_by, tunes_memory
from gputopo.tuning.progress import (
    first_record,
    is_applied,
    is_own,
    known_amounts,
    raises,
    resize,
    was_never_written,
)
from gputopo.tuning.qos import resized_spec
from gputopo.tuning.waits import (
    DEFERRAL_WAITS,
    DEFERRED_SECONDS,
    ERROR_SECONDS,
    seconds_since_resize,
    wait_left,
)


def finding(pod: TunedPod, now: datetime) -> PodResize | RecordUpdate | None:
    """Return the step that ends the newest resize of the pod, or None if there is nothing to do."""
    record = pod.record
    if pod.obstacle or pod.measuring:
        return None
    if record is None:
        return _replaced(pod) if pod.unreadable else None
    if record.pinned:
        return _end_of_pinned(pod, record, now)
    if not is_own(pod, record):
        return _resized_by_other(pod, record)
    for rule in (_out_of_memory, _rejected, _infeasible, _memory_not_cut, _deferred, _done):
        if (step := rule(pod, record, now)) is not None:
            return step
    return None


def _replaced(pod: TunedPod) -> RecordUpdate:
    """Return a new record in place of one that cannot be parsed; the former floor is lost."""
    message = (
        f"{pod.unreadable}, {_text(amounts_of(pod))}; to give the pod its former floor back, "
        "create the pod again"
    )
    return RecordUpdate(
        pod.uid, _with(first_record(pod), reason=message), TuningEvent.RECORD_REPLACED, message
    )


def _end_of_pinned(
    pod: TunedPod, record: TunedRecord, now: datetime
) -> PodResize | RecordUpdate | None:
    """Return the step that ends the last resize of a pinned pod; None if no step is needed."""
    if not was_never_written(pod, record):
        applied = not record.done and is_applied(pod, record, now)
        return RecordUpdate(pod.uid, _with(record, done=True)) if applied else None
    # The operator pins a pod while it restores what the pod has. More is not the operator's target.
    if pod.rejection or raises(had_by(pod), record.target):
        return RecordUpdate(pod.uid, _with(record, target=record.last, done=True))
    return PodResize(pod.uid, record, resized_spec(pod.spec, record.target))


def _resized_by_other(pod: TunedPod, record: TunedRecord) -> RecordUpdate:
    has, gave = pod.spec.request, record.target
    message = (
        f"another client has resized the pod to {_text(has)}; gputopo had resized it to "
        f"{_text(gave)} and does not resize it any more; to change this, exclude the pod from the "
        "other client and create the pod again"
    )
    pinned = _with(record, target=amounts_of(pod), reason=message, done=True, pinned=True)
    return RecordUpdate(pod.uid, pinned, TuningEvent.RESIZED_BY_OTHER, message)


def _out_of_memory(pod: TunedPod, record: TunedRecord, _: datetime) -> RecordUpdate | None:
    """Return the record after an OOM kill, if the pod once had more memory than at the kill."""
    spec = pod.spec
    if not pod.out_of_memory_at or spec.limit_memory is None or not tunes_memory(pod):
        return None
    requested = pod.out_of_memory_at - (spec.limit_memory - spec.request.memory)
    if not max(record.least_memory, 1) <= requested < record.peak_memory:
        return None
    message = (
        "the container was killed because it ran out of memory at "
        f"{format_bytes(pod.out_of_memory_at)}; the pod gets {format_bytes(record.peak_memory)} "
        "back, and gputopo does not cut it below this amount again"
    )
    learned = _with(record, least_memory=record.peak_memory)
    return RecordUpdate(pod.uid, learned, TuningEvent.MEMORY_GIVEN_BACK, message)


def _rejected(pod: TunedPod, record: TunedRecord, _: datetime) -> RecordUpdate | None:
    if not pod.rejection or not was_never_written(pod, record):
        return None
    message = f"the API server rejected the resize to {_text(record.target)}: {pod.rejection}"
    learned = _bounds(record.last, record.target) or {"pinned": True}
    learned |= {"target": record.last, "reason": message, "done": True, "rejected": True}
    ended = _with(record, **learned)
    return RecordUpdate(pod.uid, ended, TuningEvent.RESIZE_REJECTED, message)


def _infeasible(pod: TunedPod, record: TunedRecord, now: datetime) -> PodResize | None:
    held = pod.state.allocated or pod.state.applied
    if pod.state.problem != "Infeasible" or held is None or held == pod.spec.request:
        return None
    back, target = known_amounts(record, held), amounts_of(pod)
    message = f"the resize to {_text(target)} is infeasible: {pod.state.message}"
    learned = _bounds(back, target)
    if _is_policy(pod.state.message):
        message += (
            "; set the memory request below the memory limit and create the pod again, or use a "
            "node with the policy none"
        )
        learned = {"pinned": True}
    return _revert(pod, back, now, message, learned or {"pinned": True})


def _is_policy(message: str) -> bool:
    """Return whether kubelet's static CPU manager or memory manager has rejected the resize.

    Kubelet's text is ``Resize is infeasible for Guaranteed Pods alongside CPU Manager policy
    "static"``.
    """
    return "manager policy" in message.lower()


def _memory_not_cut(pod: TunedPod, record: TunedRecord, now: datetime) -> PodResize | None:
    """Give memory back that kubelet could not cut, because the container uses it."""
    applied = pod.state.applied
    if pod.state.problem != "Error" or applied is None or wait_left(record, now) > 0:
        return None
    if applied.memory <= pod.spec.request.memory or not tunes_memory(pod):
        return None
    if not _is_in_use(pod.state.message) and seconds_since_resize(record, now) < ERROR_SECONDS:
        return None
    message = (
        f"the cut of memory to {format_bytes(pod.spec.request.memory)} was rejected: "
        f"{pod.state.message}; the pod keeps {format_bytes(applied.memory)}"
    )
    back = Amounts(amounts_of(pod).milli_cpu, applied.memory)
    return _revert(pod, back, now, message, {"least_memory": applied.memory})


def _is_in_use(message: str) -> bool:
    """Return whether kubelet has not cut memory because the container uses it.

    Kubelet's text is ``cannot decrease memory limits: attempting to set container "main" memory
    limit (268435456) below current usage (641486848)``. Soon after the start of a container, it is
    ``missing pod memory usage``; kubelet then tries again.
    """
    return "below current usage" in message


def _deferred(pod: TunedPod, record: TunedRecord, now: datetime) -> PodResize | None:
    """Revert a raise for which kubelet has found no capacity within the time limit.

    Kubelet also defers a cut, if afterwards the pods would still not fit on the node.
    """
    held = pod.state.allocated
    if pod.state.problem != "Deferred" or held is None or held == pod.spec.request:
        return None
    if seconds_since_resize(record, now) < DEFERRED_SECONDS:
        return None
    back = Amounts(*map(max, known_amounts(record, held), floor_of(pod)))
    # Its floor and a cut stay in the spec, until the node has capacity for all pods.
    if not raises(back, amounts_of(pod)):
        return None
    message = (
        f"the resize to {_text(amounts_of(pod))} was deferred for {DEFERRED_SECONDS} s: "
        f"{pod.state.message}"
    )
    return _revert(pod, back, now, message, _from_deferral(record, back, amounts_of(pod)))


def _done(pod: TunedPod, record: TunedRecord, now: datetime) -> RecordUpdate | None:
    if record.done or was_never_written(pod, record) or not is_applied(pod, record, now):
        return None
    deferrals = 0 if raises(record.last, record.target) else record.deferrals
    ended = _with(record, done=True, deferrals=deferrals)
    message = f"resized from {_change(record.last, record.target)}: {record.reason}"
    return RecordUpdate(pod.uid, ended, TuningEvent.RESIZED, message)


def _revert(
    pod: TunedPod, back: Amounts, now: datetime, message: str, learned: dict[str, Any]
) -> PodResize:
    step = resize(pod, back, now, reason=message, event=TuningEvent.RESIZE_REJECTED)
    written = _with(step.record, rejected=True, **learned)
    return PodResize(step.uid, written, step.spec, step.event, step.message)


def _from_deferral(record: TunedRecord, back: Amounts, target: Amounts) -> dict[str, Any]:
    """Return the changes of the record after kubelet has deferred a raise too long."""
    if record.deferrals < len(DEFERRAL_WAITS):
        return {"deferrals": record.deferrals + 1}
    return {"deferrals": 0, **_bounds(back, target)}


def _bounds(back: Amounts, target: Amounts) -> dict[str, Any]:
    """Return the changes of the record that exclude a raise above ``back``; empty for a cut."""
    bounds = {}
    if target.milli_cpu > back.milli_cpu:
        bounds["most_milli_cpu"] = back.milli_cpu
    if target.memory > back.memory:
        bounds["most_memory"] = back.memory
    return bounds


def _with(record: TunedRecord, **changes: Any) -> TunedRecord:  # noqa: ANN401
    if "reason" in changes:
        changes["reason"] = changes["reason"][:MAX_REASON]
    return record.model_copy(update=changes)


def _change(before: Amounts, after: Amounts) -> str:
    """Describe a change of amounts, without the memory if it stays the same.

    >>> _change(Amounts(1000, 2**30), Amounts(2500, 2**30))
    '1000m to 2500m CPU'
    """
    if before.memory == after.memory:
        return f"{before.milli_cpu}m to {after.milli_cpu}m CPU"
    return f"{_text(before)} to {_text(after)}"


def _text(amounts: Amounts) -> str:
    return f"{amounts.milli_cpu}m CPU and {format_bytes(amounts.memory)} memory"
