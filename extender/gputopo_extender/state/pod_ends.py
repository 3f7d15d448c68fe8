"""What the ends of pods mean for their nodes: GPUs that wait for confirmation, and pauses."""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final

from gputopo_extender.state.claim import Claim
from gputopo_extender.state.decision import claimed_pod
from gputopo_extender.state.ended_pods import EndedPods
from gputopo_extender.state.rejections import KubeletRejections, is_admission_error
from gputopo_kube.pods import PodView

_LARGEST_VERSION: Final = 2**63 - 1


class PodEndings:
    """The ended pods and the rejections of all nodes, and when they expire."""

    def __init__(self, clock: Callable[[], float], changed: Callable[[str], None]) -> None:
        """Call ``changed`` with the name of each node whose state may change."""
        self._clock = clock
        self._changed = changed
        self._due: list[tuple[float, str]] = []
        self.endings = EndedPods()
        self._rejections = KubeletRejections()

    def add(
        self, pod: PodView, before: PodView | None, *, version: int, is_exact: bool = True
    ) -> None:
        """Add a pod that has ended or is gone; ``before`` is what was known of it.

        ``version`` is that of its end; a later one where it is not exact.
        """
        if pod.node is None:
            return
        self._changed(pod.node)
        if before is not None and not before.live:
            self.endings.confirm(pod)
            return
        now = self._clock()
        until = self.endings.add(pod, version=version, is_exact=is_exact, now=now)
        heappush(self._due, (until, pod.node))
        if before is not None and is_admission_error(pod):
            paused_until = self._rejections.add(pod, now)
            if paused_until is not None:
                heappush(self._due, (paused_until, pod.node))

    def add_lost(self, claims: Iterable[Claim], *, version: int | None = None) -> None:
        """Add pods that may have been bound and started, and were gone before any watch showed it.

        ``version`` is that of the list that lacks them, None where they were not found by name.
        """
        latest = _LARGEST_VERSION if version is None else version
        for claim in claims:
            self.add(claimed_pod(claim), None, version=latest, is_exact=False)

    def started(self, node: str) -> None:
        """Note that a pod began to run on a node."""
        self._rejections.started(node, self._clock())

    def paused(self, node: str) -> str | None:
        """Return why the node is left out now, None where it is not."""
        return self._rejections.reason(node, self._clock())

    def expire(self, now: float) -> None:
        """Report the nodes where a time has passed."""
        while self._due and self._due[0][0] <= now:
            self._changed(heappop(self._due)[1])
