"""When filter answers with an error, which kube-scheduler retries after its back-off of seconds.

Without an error a pod that fits nowhere waits for an event of the cluster, or for the flush every
five minutes, and may have other pods preempted. That is right only where nothing but other pods
is in the way. An error also ends a nomination of the pod; for the usual delay of the watch, which
ends a moment after the victims of a preemption have gone, filter therefore waits first.

What is in the way may stay there: a process that cannot be killed, an agent that is down. A pod
that may preempt others is therefore answered without an error once a minute, so that
kube-scheduler looks for victims.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.evaluation import Evaluation, MisfitKind
from gputopo_kube.pods import PodView

LONGEST_WAIT_SECONDS: Final = 0.1

ERRORS_SECONDS: Final = 60.0
"""A pod that may preempt others gets errors for so long before kube-scheduler may do that."""

_LOOK_SECONDS: Final = 0.01
_MOST_REMEMBERED: Final = 1_000
_MOST_NAMED: Final = 3

_OUTDATED: Final = frozenset(
    {MisfitKind.BUSY, MisfitKind.UNOBSERVED, MisfitKind.RESERVED_ELSEWHERE}
)
"""kube-scheduler asks only about nodes with enough GPUs by its own count, which knows these too."""


class FilterRetries:
    """Decides whether a pod that fits nowhere is tried again soon."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.monotonic) -> None:
        """Wait for changes of ``ledger``; ``clock`` is in seconds."""
        self._ledger = ledger
        self._clock = clock
        self._waited: dict[str, float] = {}
        self._errors_since: dict[str, float] = {}

    async def settled(
        self, pod: PodView, found: Evaluation, again: Callable[[], Awaitable[Evaluation]]
    ) -> Evaluation:
        """Return the evaluation, of a moment later where the ledger may be behind.

        Once per pod, since kube-scheduler filters one pod at a time. Pods of a scheduling group are
        filtered one after another before any is bound, so that nothing changes meanwhile.
        """
        if not self._may_be_outdated(pod, found) or not self._is_first(pod.uid):
            return found
        clock = asyncio.get_running_loop().time
        until, seen = clock() + LONGEST_WAIT_SECONDS, self._ledger.changes()
        while self._may_be_outdated(pod, found) and clock() < until:
            await asyncio.sleep(_LOOK_SECONDS)
            if seen != (seen := self._ledger.changes()):
                found = await again()
        return found

    def reason(self, pod: PodView, found: Evaluation) -> str | None:
        """Return why the pod is to be tried again soon, None where it fits or waits for pods."""
        reason = self._reason(pod, found)
        if reason is None or self._is_preemption_due(pod):
            self._errors_since.pop(pod.uid, None)
            return None
        return reason

    def _is_preemption_due(self, pod: PodView) -> bool:
        """Return whether the pod may preempt others, and was answered with errors for long."""
        now = self._clock()
        if pod.uid not in self._errors_since:
            self._remember(self._errors_since, pod.uid, now)
        is_late = now - self._errors_since[pod.uid] >= ERRORS_SECONDS
        return is_late and pod.preempts and self._ledger.has_live_pod_below(pod.priority)

    def _reason(self, pod: PodView, found: Evaluation) -> str | None:
        if found.has_fit():
            return None
        if deleted := found.misfits_of({MisfitKind.DELETED_PODS}):
            return self._deleted(deleted)
        if away := found.misfits_of({MisfitKind.NOT_READY}):
            nodes = f"of {len(found.nodes)} nodes {len(away)}"
            return f"{nodes} may take the pod soon: {min(away.values())}"
        if not self._may_be_outdated(pod, found):
            return None
        busy = found.misfits_of(_OUTDATED)
        return f"kube-scheduler counts enough free GPUs, gputopo does not yet: {_listed(busy)}"

    def _deleted(self, nodes: Mapping[str, str]) -> str:
        """Return the reason for nodes that wait for processes of deleted pods."""
        named = {
            node: f"GPUs in use by processes of deleted pod {', '.join(pods)}"
            for node in nodes
            if (pods := self._ledger.ended_pods(node))
        }
        return f"{_listed(named or nodes)}: waiting until they end"

    def _may_be_outdated(self, pod: PodView, found: Evaluation) -> bool:
        if pod.grouped or found.has_fit() or found.misfits_of({MisfitKind.DELETED_PODS}):
            return False
        return bool(found.misfits_of(_OUTDATED))

    def _is_first(self, uid: str) -> bool:
        if uid in self._waited:
            return False
        self._remember(self._waited, uid, self._clock())
        return True

    def _remember(self, times: dict[str, float], uid: str, now: float) -> None:
        """Add a time; forget pods that wait no longer, and the oldest, where there are many."""
        if len(times) >= _MOST_REMEMBERED:
            for known in [each for each in times if not self._waits(each)] or [next(iter(times))]:
                del times[known]
        times[uid] = now

    def _waits(self, uid: str) -> bool:
        pod = self._ledger.pod(uid)
        return pod is not None and pod.live and pod.node is None


def _listed(reasons: Mapping[str, str]) -> str:
    named = [f"{node}: {reasons[node]}" for node in sorted(reasons)[:_MOST_NAMED]]
    more = len(reasons) - len(named)
    return "; ".join(named) + (f"; and {more} more nodes" if more else "")
