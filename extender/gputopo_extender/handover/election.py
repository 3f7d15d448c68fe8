"""The Lease of the schedulers, and the loop that takes it from a leader that is failing."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import httpx2
from lightkube import AsyncClient

from gputopo.runtime.log import fields
from gputopo_extender.cluster import PodDocument, RefusedError, UnansweredError, in_time
from gputopo_extender.handover.leader import SchedulerPodState, Standby, pod_state
from gputopo_extender.leases import LeaseDocument

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

    def __init__(
        self, client: AsyncClient, candidate: LeaseCandidate, timeout_seconds: float
    ) -> None:
        """Use ``client``; no call takes longer than the time-out."""
        self._client = client
        self._candidate = candidate
        self._timeout_seconds = timeout_seconds

    async def lease(self) -> Mapping[str, Any] | None:
        """Return the Lease, None where there is none.

        Raises:
            RefusedError, UnansweredError: where it could not be read.
        """
        return await self._read(LeaseDocument, self._candidate.lease)

    async def pod(self, name: str) -> SchedulerPodState | None:
        """Return the state of a scheduler pod, None where there is no such pod.

        Raises:
            RefusedError, UnansweredError: where it could not be read.
        """
        pod = await self._read(PodDocument, name)
        return None if pod is None else pod_state(pod)

    async def take(self, lease: Mapping[str, Any]) -> None:
        """Give the Lease to no one for ``blocked_seconds``.

        With an empty holder the former leader, which tries again within a second, would mostly be
        the first to acquire it. This way it fails to renew, ends and starts again as a standby.

        Raises:
            RefusedError: where the Lease was renewed meanwhile: it is tried again.
            UnansweredError: where it may have been written.
        """
        spec = {
            **lease["spec"],
            "holderIdentity": f"taken-by-{self._candidate.pod}",
            "leaseDurationSeconds": self._candidate.blocked_seconds,
            "renewTime": datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z",
        }
        document = LeaseDocument.from_dict({**lease, "spec": spec})
        async with in_time(self._timeout_seconds):
            await self._client.replace(document)

    async def _read(self, kind: type[Any], name: str) -> Mapping[str, Any] | None:
        try:
            async with in_time(self._timeout_seconds):
                found: Mapping[str, Any] = await self._client.get(
                    kind, name, namespace=self._candidate.namespace
                )
        except RefusedError as error:
            if error.status == httpx2.codes.NOT_FOUND:
                return None
            raise
        return found


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
            except (RefusedError, UnansweredError) as error:
                _log.debug("leader not checked %s", fields(reason=str(error)))
                self._standby.reset()

    async def look(self) -> None:
        """Look at the leader once, and take the Lease from it where it is failing.

        Raises:
            RefusedError, UnansweredError: where the API server did not answer.
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
        except RefusedError as error:
            _log.debug("lease not taken, trying again %s", fields(reason=str(error)))
            return
        _log.warning("took the scheduler's Lease %s", fields(leader=leader, reason=failure))


def _holder(lease: Mapping[str, Any] | None) -> str:
    return str((lease or {}).get("spec", {}).get("holderIdentity") or "")
