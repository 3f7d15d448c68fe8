"""Estimates how many items a member has processed: its measured rate times its running time."""

from dataclasses import dataclass
from typing import Final

from gputopo.api.ensemble import EnsembleMemberStatus, GPUEnsembleSpec
from gputopo.runtime.times import timestamp_of, unix_seconds
from gputopo_operator.decision.ensemble.rates import LARGEST
from gputopo_operator.model.ensembles import MemberPod

COUNT_SECONDS: Final = 30
"""Items are counted at whole multiples of this time, so that all members change in one write."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The items of a member.

    Attributes:
        done: items of all its pods.
        earlier: those of its earlier pods.
        counted: RFC 3339 time until which the items of the newest pod are counted; None before.
    """

    done: int
    earlier: int
    counted: str | None


def progress_of(
    spec: GPUEnsembleSpec,
    before: EnsembleMemberStatus,
    pod: MemberPod | None,
    measured: float | None,
    now: str,
) -> Progress:
    """Return the items of a member until now.

    A new pod continues where the former one was if the template restarts from a checkpoint;
    otherwise, it begins again.
    """
    done, earlier, counted = before.items_done, before.earlier_items, before.items_counted
    if pod is not None and before.pod_uid not in {None, pod.uid}:
        earlier = done = done if spec.restarts == "FromCheckpoint" else 0
        counted = None
    started, at = unix_seconds(pod.started if pod else None), unix_seconds(now)
    if measured is None or started is None or at is None:
        return Progress(done, earlier, counted)
    until = at - at % COUNT_SECONDS
    last = unix_seconds(counted)
    since, items = (started, earlier) if last is None else (last, done)
    if until <= since:
        return Progress(done, earlier, counted)
    items = min(LARGEST, items + round(measured * (until - since)))
    return Progress(items, earlier, timestamp_of(until))
