"""Decides the condition Postponed: whether the pod of a GPUJob waits for a better placement."""

from gputopo.api.waiting import parse_postponed
from gputopo_operator.decision.conditions import POSTPONED, ConditionUpdate, find
from gputopo_operator.decision.situation import JobSituation


def postponed(found: JobSituation) -> list[ConditionUpdate]:
    """Return a list with the condition Postponed, or an empty list if it must not change.

    A job whose pods have never waited has no such condition.
    """
    pod = found.pod
    record = None if pod is None else parse_postponed(pod.view.annotations, pod.view.uid)
    if pod is None or record is None:
        before = find(found.before.conditions, POSTPONED)
        is_over = before is not None and before.status == "True"
        return [ConditionUpdate(POSTPONED, False, "NoPodWaits", "")] if is_over else []
    if record.end is not None:
        reason = "MaxWaitExceeded" if record.end.expired else "ValueReached"
        return [ConditionUpdate(POSTPONED, False, reason, record.end_text())]
    waits = found.result is None and pod.view.node is None and pod.view.live
    if not waits:
        return [ConditionUpdate(POSTPONED, False, "NoPodWaits", "")]
    text = f"pod {pod.view.name} has been waiting since {record.since}: {record.wait_text()}"
    return [ConditionUpdate(POSTPONED, True, "WaitingForPlacement", text)]
