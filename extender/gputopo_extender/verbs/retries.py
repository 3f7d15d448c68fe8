"""Decides when filter returns an error, so that kube-scheduler tries the pod again soon.

If a pod fits on no node and filter returns no error, kube-scheduler may preempt other pods, and
tries the pod again after a cluster event or after five minutes. After an error, kube-scheduler
preempts no pods and tries the pod again within seconds. So filter returns an error if the cause may
end without preemption, for example if processes of a deleted pod use the GPUs.

An error has a disadvantage: after kube-scheduler has preempted pods on a node, an error makes it
forget that it has nominated the node for the pod. The extender's watch shows the end of preempted
pods late. So filter waits up to 100 ms for changes before it returns an error.

Some causes last long, for instance a process that cannot be killed. So if the pod may preempt other
pods, filter returns errors for only 60 s, then responds once without an error, so that
kube-scheduler can preempt pods, and then returns errors for 60 s again.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import Evaluation, MisfitKind

LONGEST_WAIT_SECONDS: Final = 0.1

ERRORS_SECONDS: Final = 60.0
"""For this time filter returns errors for a pod, before the pod may preempt other pods."""

_LOOK_SECONDS: Final = 0.01
_MOST_REMEMBERED: Final = 1_000
_MOST_NAMED: Final = 3

_OUTDATED: Final = frozenset(
    {
        MisfitKind.BUSY,
        MisfitKind.UNOBSERVED,
        MisfitKind.RESERVED_ELSEWHERE,
        MisfitKind.NUMA_WAITING,
    }
)
"""kube-scheduler sends only nodes with enough free GPUs by its own count, so these misfits show
that the ledger may be outdated."""


class LedgerWait:
    """Waits for changes of the ledger, for at most ``LONGEST_WAIT_SECONDS`` in total."""

    def __init__(self, ledger: Ledger) -> None:
        """Start the time limit now."""
        self._ledger = ledger
        self._clock = asyncio.get_running_loop().time
        self._until = self._clock() + LONGEST_WAIT_SECONDS
        self._seen = ledger.changes()

    async def changed(self) -> bool:
        """Wait for the next change of the ledger; return False if the time limit ends first."""
        while self._clock() < self._until:
            await asyncio.sleep(_LOOK_SECONDS)
            before, self._seen = self._seen, self._ledger.changes()
            if self._seen != before:
                return True
        return False


class FilterRetries:
    """Decides whether filter returns an error for a pod that fits on no node."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.monotonic) -> None:
        """Decide by the pods in ``ledger``; ``clock`` returns seconds."""
        self._ledger = ledger
        self._clock = clock
        self._waited: dict[str, float] = {}
        self._errors_since: dict[str, float] = {}

    def may_be_outdated(self, pod: PodView, found: Evaluation) -> bool:
        """Return whether the pod may fit after changes that the ledger has not received yet.

        Return False for a pod with ``spec.schedulingGroup``: filter does not wait for such a pod.
        """
        if pod.grouped or found.has_fit() or found.misfits_of({MisfitKind.DELETED_PODS}):
            return False
        return bool(found.misfits_of(_OUTDATED))

    def begin_wait(self, pod: PodView, found: Evaluation) -> LedgerWait | None:
        """Return a ``LedgerWait`` if the pod may fit soon, otherwise None.

        filter waits only once for each pod, because kube-scheduler filters no other pod during the
        wait.
        """
        if pod.uid in self._waited or not self.may_be_outdated(pod, found):
            return None
        self._remember(self._waited, pod.uid, self._clock())
        return LedgerWait(self._ledger)

    def reason(self, pod: PodView, found: Evaluation) -> str | None:
        """Return the error text if kube-scheduler must try the pod again soon, otherwise None."""
        reason = self._reason(pod, found)
        if reason is None or self._is_preemption_due(pod):
            self._errors_since.pop(pod.uid, None)
            return None
        return reason

    def _is_preemption_due(self, pod: PodView) -> bool:
        """Return whether the pod may preempt other pods and got errors for ``ERRORS_SECONDS``."""
        now = self._clock()
        if pod.uid not in self._errors_since:
            self._remember(self._errors_since, pod.uid, now)
        is_late = now - self._errors_since[pod.uid] >= ERRORS_SECONDS
        return is_late and pod.preempts and self._ledger.pods.has_live_below(pod.priority)

    def _reason(self, pod: PodView, found: Evaluation) -> str | None:
        if found.has_fit():
            return None
        if deleted := found.misfits_of({MisfitKind.DELETED_PODS}):
            return self._deleted(deleted)
        if not_ready := found.misfits_of({MisfitKind.NOT_READY}):
            count = f"{len(not_ready)} of {len(found.nodes)} nodes"
            return f"{count} are not ready but may take the pod soon: {min(not_ready.values())}"
        if not self.may_be_outdated(pod, found):
            return None
        busy = found.misfits_of(_OUTDATED)
        return f"kube-scheduler counts enough free GPUs, the extender does not yet: {_listed(busy)}"

    def _deleted(self, nodes: Mapping[str, str]) -> str:
        named = {
            node: f"GPUs in use by processes of deleted pod {', '.join(pods)}"
            for node in nodes
            if (pods := self._ledger.ended_pods(node))
        }
        return f"{_listed(named or nodes)}: waiting until they end"

    def _remember(self, times: dict[str, float], uid: str, now: float) -> None:
        """Set ``times[uid]`` to ``now``. If ``times`` is full, first drop bound and ended pods."""
        if len(times) >= _MOST_REMEMBERED:
            gone = [each for each in times if not self._ledger.pods.is_waiting(each)]
            for known in gone or [next(iter(times))]:
                del times[known]
        times[uid] = now


def _listed(reasons: Mapping[str, str]) -> str:
    named = [f"{node}: {reasons[node]}" for node in sorted(reasons)[:_MOST_NAMED]]
    more = len(reasons) - len(named)
    return "; ".join(named) + (f"; and {more} more nodes" if more else "")
