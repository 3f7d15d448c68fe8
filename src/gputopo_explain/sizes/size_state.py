"""Decides the state of a sized pod. Its name is a reason of the condition ``Sized``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from gputopo.api.tuning import TunedRecord
from gputopo.tuning.model import Target, TunedPod
from gputopo.tuning.pods import amounts_of
from gputopo.tuning.state import resize_state


class SizeState(NamedTuple):
    """The state of a sized pod.

    Attributes:
        name: a reason of the condition ``Sized`` of a GPUJob.
        reason: why the pod has these amounts, or gets those of the newest resize.
        problem: why kubelet has not carried out the newest resize; empty if there is no problem.
    """

    name: str
    reason: str
    problem: str = ""


def state_of(pod: TunedPod, target: Target, *, running: bool) -> SizeState:
    """Return the state of a pod.

    Args:
        pod: the pod.
        target: what the operator decides about the pod now.
        running: whether its containers have started.
    """
    if pod.obstacle:
        return SizeState("NotPossible", pod.obstacle)
    if not running:
        return SizeState("NotRunning", "gputopo sizes the pod when it runs")
    if pod.measuring:
        return SizeState("Measuring", target.reason)
    if pod.record is None:
        return SizeState("NotResized", _why_not(pod, target))
    return _newest_resize(pod, pod.record)


def _newest_resize(pod: TunedPod, record: TunedRecord) -> SizeState:
    ended = record.pinned or record.done
    name = resize_state(record, pod.state.problem)
    return SizeState(name, record.reason, "" if ended else pod.state.message)


def _why_not(pod: TunedPod, target: Target) -> str:
    if target.amounts == amounts_of(pod):
        return target.reason
    return f"the operator has not resized the pod yet; planned: {target.reason}"


STATE_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Resized": "kubelet has applied the newest resize",
        "Rejected": "the API server or kubelet rejected the newest resize; the pod keeps its "
        "former amounts",
        "NotResized": "the pod has the amounts with which it was created",
        "Measuring": "gputopo measures the pod with several CPU limits",
        "Resizing": "kubelet has not yet carried out the newest resize",
        "Deferred": "the node has too little CPU or memory for the raise now; after 60 s the "
        "operator withdraws it",
        "Infeasible": "the node can never carry out the newest resize",
        "Error": "kubelet failed to carry out the newest resize",
        "Pinned": "gputopo does not resize the pod any more",
        "NotPossible": "the pod cannot be resized",
        "NotRunning": "the pod does not run yet",
    }
)
"""What each reason of the condition ``Sized`` means, in words."""
