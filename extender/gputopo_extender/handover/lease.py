"""Takes the Lease of the schedulers from a leader whose extender is failing.

A background task reads the Lease, the leader's pod and this extender's pod once a second. The
module ``leader`` decides whether to take the Lease.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gputopo.runtime.log import fields
from gputopo_extender.handover.leader import SchedulerPodState, Standby, pod_state
from gputopo_extender.handover.leadership import Leadership, leading_pod
from gputopo_kube.client import AsyncApi
from gputopo_kube.errors import ApiError, RejectedError
from gputopo_kube.resources import LeaseDocument, PodDocument

_POLL_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseCandidate:
    """The names and times with which this scheduler pod takes the Lease from a failing leader.

    Attributes:
        pod: name of this pod, which is the host name of its kube-scheduler.
        lease: name of the Lease for which the schedulers compete, in ``namespace``.
        tolerated_seconds: how long a leader's extender may be not ready before this extender takes
            the Lease.
        blocked_seconds: how long no scheduler can acquire the Lease after this extender has taken
            it. This time must be longer than kube-scheduler's ``renewDeadline``, after which the
            former leader ends.
    """

    namespace: str
    pod: str
    lease: str
    tolerated_seconds: float
    blocked_seconds: int


class LeaseHandover:
    """If this pod is ready, takes the Lease from a leader whose extender is failing."""

    def __init__(
        self,
        api: AsyncApi,
        candidate: LeaseCandidate,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Act for the scheduler pod ``candidate``; ``clock`` returns seconds."""
        self._api = api
        self._candidate = candidate
        self._standby = Standby(candidate.tolerated_seconds)
        self._leadership = Leadership(candidate.pod)
        self._clock = clock

    def leads(self) -> bool | None:
        """Return whether the kube-scheduler of this pod holds the Lease and renews it.

        None if no scheduler is known to do so, for example just after the start.
        """
        return self._leadership.is_held(self._clock())

    async def run(self) -> None:
        """Check the leader once a second until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                await self._check()
            except ApiError as error:
                _log.debug("could not read which scheduler leads: %s", fields(reason=str(error)))
                self._standby.reset()

    async def _check(self) -> None:
        candidate = self._candidate
        lease = await self._api.find(LeaseDocument, candidate.lease, candidate.namespace)
        self._leadership.record(lease, self._clock())
        leader = leading_pod(lease)
        if lease is None or leader in {"", candidate.pod}:
            self._standby.reset()
            return
        own, other = await asyncio.gather(self._pod_state(candidate.pod), self._pod_state(leader))
        failure = self._standby.failure(own, other, self._clock())
        if failure is None:
            return
        try:
            await self._take(lease)
        except RejectedError as error:
            _log.debug("lease not taken, trying again %s", fields(reason=str(error)))
            return
        _log.warning("took the scheduler's Lease %s", fields(leader=leader, reason=failure))

    async def _pod_state(self, name: str) -> SchedulerPodState | None:
        pod = await self._api.find(PodDocument, name, self._candidate.namespace)
        return None if pod is None else pod_state(pod)

    async def _take(self, lease: Mapping[str, Any]) -> None:
        """Write a ``holderIdentity`` that belongs to no scheduler, valid for ``blocked_seconds``.

        The former leader then fails to renew the Lease, ends, and starts again as a standby. An
        empty identity would not be enough: any scheduler, also the former leader, could acquire the
        Lease at its next try.

        Raises:
            RejectedError: if the Lease was renewed since it was read. The next check tries again.
            UnavailableError: if it is unknown whether the Lease was written.
        """
        spec = {
            **lease["spec"],
            "holderIdentity": f"taken-by-{self._candidate.pod}",
            "leaseDurationSeconds": self._candidate.blocked_seconds,
            "renewTime": datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z",
        }
        await self._api.replace(LeaseDocument, {**lease, "spec": spec})
