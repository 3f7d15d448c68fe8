"""Finds out whether the kube-scheduler of this pod leads. The metrics show it."""

from collections.abc import Mapping
from typing import Any


def leading_pod(lease: Mapping[str, Any] | None) -> str:
    """Return the name of the scheduler pod that holds the Lease; empty if none does.

    kube-scheduler's identity is its host name, "_" and a UUID. A pod name has no "_".
    """
    identity = str((lease or {}).get("spec", {}).get("holderIdentity") or "")
    return identity.rpartition("_")[0]


class Leadership:
    """Stores when the Lease of the schedulers changed last. Times are monotonic seconds.

    As in client-go, only a change of the Lease counts, and not the time in its ``renewTime``: the
    clocks of two nodes differ.
    """

    def __init__(self, pod: str) -> None:
        """Report whether the scheduler of ``pod`` leads."""
        self._pod = pod
        self._seen: Mapping[str, Any] | None = None
        self._changed_at = 0.0

    def record(self, lease: Mapping[str, Any] | None, now: float) -> None:
        """Record the Lease as read at time ``now``; None if there is none."""
        spec = (lease or {}).get("spec")
        if spec != self._seen:
            self._seen, self._changed_at = spec, now

    def is_held(self, now: float) -> bool | None:
        """Return whether this pod holds the Lease, and renewed it within the Lease's duration.

        None if no pod is known to hold it: it was not read yet, or its leader has not renewed it.
        """
        spec = self._seen or {}
        leader = leading_pod({"spec": spec})
        if not leader or now - self._changed_at >= (spec.get("leaseDurationSeconds") or 0):
            return None
        return leader == self._pod
