"""The Lease of the schedulers, and the loop that takes it from a leader that is failing."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gputopo.runtime.log import fields
from gputopo_extender.handover.leader import SchedulerPodState, Standby, pod_state
from gputopo_kube.client import AsyncApi
from gputopo_kube.errors import ApiError, RejectedError
from gputopo_kube.resources import LeaseDocument, PodDocument

_POLL_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseCandidate:
    """This pod among the scheduler pods.

    Attributes:
        pod: name of this pod, which is the host name of its kube-scheduler.
        lease: name of the Lease for which the schedulers compete, in ``namespace``.
        blocked_seconds: how long no scheduler may acquire a Lease that was taken away. Longer
            than kube-scheduler's ``renewDeadline``, in which the former leader gives up.
    """

    namespace: str
    pod: str
    lease: str
    blocked_seconds: int


class Election:
    """Reads and writes of the handover at the API server."""

    def __init__(self, api: AsyncApi, candidate: LeaseCandidate) -> None:
        """Send requests by ``api``."""
        self._api = api
        self._candidate = candidate

    async def lease(self) -> Mapping[str, Any] | None:
        """Return the Lease, None where there is none.

        Raises:
            ApiError: if it could not be read.
        """
        candidate = self._candidate
        return await self._api.find(LeaseDocument, candidate.lease, candidate.namespace)

    async def pod(self, name: str) -> SchedulerPodState | None:
        """Return the state of a scheduler pod, None where there is no such pod.

        Raises:
            ApiError: if it could not be read.
        """
        pod = await self._api.find(PodDocument, name, self._candidate.namespace)
        return None if pod is None else pod_state(pod)

    async def take(self, lease: Mapping[str, Any]) -> None:
        """Give the Lease to no one for ``blocked_seconds``.

        With an empty holder the former leader, which tries again within a second, would mostly be
        the first to acquire it. This way it fails to renew, ends and starts again as a standby.

        Raises:
            RejectedError: if the Lease was renewed since it was read: it is tried again.
            UnavailableError: if it may have been written.
        """
        spec = {
            **lease["spec"],
            "holderIdentity": f"taken-by-{self._candidate.pod}",
            "leaseDurationSeconds": self._candidate.blocked_seconds,
            "renewTime": datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z",
        }
        await self._api.replace(LeaseDocument, {**lease, "spec": spec})


class Handover:
    """Takes the Lease from a leader whose extender is failing, while this pod is ready."""

    def __init__(
        self,
        election: Election,
        pod: str,
        patience_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Act for ``pod``; a leader's extender may be not ready for ``patience_seconds``."""
        self._election = election
        self._pod = pod
        self._standby = Standby(patience_seconds)
        self._clock = clock

    async def run(self) -> None:
        """Look at the leader once a second until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                await self.look()
            except ApiError as error:
                _log.debug("leader not checked %s", fields(reason=str(error)))
                self._standby.reset()

    async def look(self) -> None:
        """Look at the leader once, and take the Lease from it where it is failing.

        Raises:
            ApiError: if a request failed.
        """
        lease = await self._election.lease()
        # kube-scheduler's identity is its host name, "_" and a UUID; a pod name has no "_".
        leader = _holder(lease).rpartition("_")[0]
        if lease is None or leader in {"", self._pod}:
            self._standby.reset()
            return
        own, state = await asyncio.gather(self._election.pod(self._pod), self._election.pod(leader))
        failure = self._standby.failure(own, state, self._clock())
        if failure is None:
            return
        try:
            await self._election.take(lease)
        except RejectedError as error:
            _log.debug("lease not taken, trying again %s", fields(reason=str(error)))
            return
        _log.warning("took the scheduler's Lease %s", fields(leader=leader, reason=failure))


def _holder(lease: Mapping[str, Any] | None) -> str:
    return str((lease or {}).get("spec", {}).get("holderIdentity") or "")
