"""Compares the spec and the state of a pod with the record of its newest resize."""

from datetime import datetime
from typing import Final

from gputopo.api.tuning import MAX_REASON, Amounts, TunedRecord
from gputopo.runtime.times import timestamp
from gputopo.tuning.model import PodResize, TunedPod, TuningEvent
from gputopo.tuning.pods import amounts_of
from gputopo.tuning.qos import has_own_limit, resized_spec
from gputopo.tuning.waits import seconds_since_resize

APPLY_SECONDS: Final = 60
"""After this time, a resize that kubelet has accepted counts as applied even if the amounts in
effect differ. Kubelet computes them from the cgroup, and may round them."""


def raises(before: Amounts, after: Amounts) -> bool:
    """Return whether the pod gets more CPUs or more memory."""
    return after.milli_cpu > before.milli_cpu or after.memory > before.memory


def is_own(pod: TunedPod, record: TunedRecord) -> bool:
    """Return whether the amounts in the pod's spec are those of the operator's newest resize.

    The operator writes the record before the spec. If it was killed between these writes, the spec
    still has the amounts ``last``. For the amounts ``floor``, the CPU limit is not checked, because
    the user has set that limit.
    """
    current = amounts_of(pod)
    expected = {record.target} if record.done else {record.target, record.last}
    return current in expected and (current == record.floor or has_own_limit(pod.spec))


def was_never_written(pod: TunedPod, record: TunedRecord) -> bool:
    """Return whether the pod's spec still has the amounts from before the newest resize."""
    return not record.done and amounts_of(pod) == record.last != record.target


def is_applied(pod: TunedPod, record: TunedRecord, now: datetime) -> bool:
    """Return whether kubelet has accepted the amounts in the pod's spec, and they are in effect."""
    state, request = pod.state, pod.spec.request
    if state.problem is not None or state.allocated not in {None, request}:
        return False
    late = seconds_since_resize(record, now) >= APPLY_SECONDS
    return late or state.applied in {None, request}


def known_amounts(record: TunedRecord, requests: Amounts) -> Amounts:
    """Return the amounts in the record for which the operator has written these requests.

    The CPU request of a Burstable pod is 1m below its amount, see :mod:`gputopo.tuning.qos`.
    Example: a pod was resized from 2000m to 4000m and has the request 1999m: its amount is 2000m.
    """
    above = Amounts(requests.milli_cpu + 1, requests.memory)
    known = (record.last, record.target, record.floor)
    return above if requests not in known and above in known else requests


def resize(
    pod: TunedPod,
    amounts: Amounts,
    now: datetime,
    *,
    reason: str,
    event: TuningEvent | None = None,
) -> PodResize:
    """Return the step that gives the pod ``amounts``, and its new record."""
    current, record = amounts_of(pod), pod.record or first_record(pod)
    moved = record.model_copy(
        update={
            "last": current,
            "target": amounts,
            "since": timestamp(now),
            "reason": reason[:MAX_REASON],
            "done": False,
            "rejected": False,
            "peak_memory": max(record.peak_memory, current.memory if record.done else 0),
        }
    )
    return PodResize(
        pod.uid, moved, resized_spec(pod.spec, amounts), event, reason if event else ""
    )


def first_record(pod: TunedPod) -> TunedRecord:
    """Return the record of a pod that gputopo has not resized: its amounts are its floor."""
    current = amounts_of(pod)
    return TunedRecord(
        uid=pod.uid,
        floor=current,
        last=current,
        target=current,
        since="1970-01-01T00:00:00Z",
        done=True,
    )
