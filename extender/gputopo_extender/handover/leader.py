"""Decides when a standby takes the Lease from a leader whose extender is failing.

kube-scheduler renews its Lease even if its extender does not respond. So the extender of a standby
watches the leader's extender: it reads the container status that kubelet reports to the API server.
The module ``lease`` calls this module once a second.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CRASHES: Final = 2
"""So many crashes of the leader's extender within ``CRASH_WINDOW_SECONDS`` are a crash loop.

kubelet restarts the container about 3 s after the first crash. It waits for 10 s after the second
crash, then for 20 s, and so on.
"""

CRASH_WINDOW_SECONDS: Final = 60.0

STANDBY_READY_SECONDS: Final = 15.0
"""Time for which the standby must be ready first, so that two failing pods do not alternate."""

_CONTAINER: Final = "extender"


@dataclass(frozen=True, slots=True)
class SchedulerPodState:
    """The state of a scheduler pod, as its kubelet reports it.

    Attributes:
        ready: whether kube-scheduler and extender are ready and the pod is not being deleted.
        extender_ready: whether the extender's container is ready.
        crashes: how often the extender's container has ended since the pod was created.
    """

    uid: str
    ready: bool
    extender_ready: bool
    crashes: int


def pod_state(pod: Mapping[str, Any]) -> SchedulerPodState | None:
    """Return the state of a scheduler pod, or None if its extender was never started."""
    metadata, status = pod["metadata"], pod.get("status", {})
    statuses = status.get("initContainerStatuses", [])
    found = next((each for each in statuses if each["name"] == _CONTAINER), None)
    if found is None:
        return None
    # restartCount includes the end of a container only after the container was started again.
    state = found.get("state", {})
    ended = "running" not in state and ("terminated" in state or bool(found.get("lastState")))
    conditions = {each["type"]: each["status"] for each in status.get("conditions", [])}
    return SchedulerPodState(
        uid=metadata["uid"],
        ready=conditions.get("Ready") == "True" and "deletionTimestamp" not in metadata,
        extender_ready=found["ready"],
        crashes=found["restartCount"] + ended,
    )


class LeaderHistory:
    """Stores the observed states of one leader's extender. Times are monotonic seconds."""

    def __init__(self, tolerated_seconds: float) -> None:
        """Treat the extender as failing if it is not ready for ``tolerated_seconds``."""
        self._tolerated_seconds = tolerated_seconds
        self._last: SchedulerPodState | None = None
        self._crashed_at: deque[float] = deque()
        self._not_ready_since: float | None = None

    def failure(self, state: SchedulerPodState, now: float) -> str | None:
        """Record ``state`` at time ``now``; return why the leader is failing, or None."""
        crashes = state.crashes - self._last.crashes if self._last else 0
        self._crashed_at.extend([now] * crashes)
        self._last = state
        while self._crashed_at and now - self._crashed_at[0] > CRASH_WINDOW_SECONDS:
            self._crashed_at.popleft()
        if state.extender_ready:
            self._not_ready_since = None
        elif self._not_ready_since is None:
            self._not_ready_since = now
        if len(self._crashed_at) >= CRASHES:
            count = len(self._crashed_at)
            return f"its extender ended {count} times within {CRASH_WINDOW_SECONDS:.0f} s"
        if self._not_ready_since is None or now - self._not_ready_since < self._tolerated_seconds:
            return None
        return f"its extender was not ready for {now - self._not_ready_since:.0f} s"


class Standby:
    """Decides whether this standby must take the Lease from the leader."""

    def __init__(self, tolerated_seconds: float) -> None:
        """Treat a leader's extender as failing if it is not ready for ``tolerated_seconds``."""
        self._tolerated_seconds = tolerated_seconds
        self._leader = ("", LeaderHistory(tolerated_seconds))
        self._ready_since: float | None = None

    def reset(self) -> None:
        """Forget all recorded states, for example after the API server did not respond."""
        self._leader = ("", LeaderHistory(self._tolerated_seconds))
        self._ready_since = None

    def failure(
        self, own: SchedulerPodState | None, leader: SchedulerPodState | None, now: float
    ) -> str | None:
        """Record both states. If this standby must take the Lease, return the leader's failure."""
        if own is None or not own.ready:
            self._ready_since = None
        elif self._ready_since is None:
            self._ready_since = now
        if leader is None:
            return None
        uid, history = self._leader
        if uid != leader.uid:
            history = LeaderHistory(self._tolerated_seconds)
            self._leader = (leader.uid, history)
        failure = history.failure(leader, now)
        if self._ready_since is None or now - self._ready_since < STANDBY_READY_SECONDS:
            return None
        return failure
