"""Claiming: nothing is given away but by a write that all others must take note of.

See docs/adr/0008-claims-fence-bindings.md for why this holds with several extenders at work,
one of them frozen at any point.
"""

import asyncio
import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, Protocol

from gputopo.runtime.log import fields
from gputopo_extender.leases import Claimed
from gputopo_extender.state.claim import Claim
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.errors import ApiError, RejectedError, UnavailableError
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView

SPACING_SECONDS: Final = 0.1
"""Between the beginnings of two writes: what is decided meanwhile is claimed in one. The first
after a pause waits for nothing."""

_LOOK_SECONDS: Final = 0.005

_log = logging.getLogger(__name__)


class Store(Protocol):
    """Where the claims are kept; see ``leases.Leases``."""

    async def read(self) -> Claimed:
        """Return the claims as they are now."""
        ...

    async def write(self, claims: Iterable[Claim], *, version: str | None) -> str:
        """Put these claims in the place of those of ``version``; return the new version."""
        ...


class Pods(Protocol):
    """What is asked about pods; see ``pod_api.PodApi``."""

    async def pod(self, namespace: str, name: str) -> PodView | None:
        """Return the pod as it is now."""
        ...

    async def invalidate(self, namespace: str, name: str) -> PodView | None:
        """Make every Binding of the pod that is under way fail; return the pod then."""
        ...


class ClaimFence:
    """The claims of all extenders, as known since they were read or written last."""

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        pods: Pods,
        *,
        patience_seconds: float,
        spacing_seconds: float = SPACING_SECONDS,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        """Keep the claims of others in ``ledger``, where they count as used GPUs.

        Wait at most ``patience_seconds`` for the watch of pods.
        """
        self._ledger = ledger
        self._store = store
        self._pods = pods
        self._patience_seconds = patience_seconds
        self._spacing_seconds = spacing_seconds
        self._look_seconds = look_seconds
        self._version: str | None = None
        self._known = False
        self._rewinds = 0
        self._term = 0
        self._reading: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._next: asyncio.Task[bool] | None = None
        self._next_at = 0.0

    async def load(self, pod: PodView) -> None:
        """Know what others have claimed, and whatever they had bound before.

        A claim is left out once its pod is bound, which the watch may show later. So a change
        is made to ``pod``, which waits to be bound: when the watch shows it, it has shown all that
        happened before.

        Raises:
            ApiError, ClaimsError, PodError: where that could not be done;
                nothing may be given away then.
        """
        if self._is_known():
            return
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(pod))
        # Whoever waits shares its end, a failure included: an outage makes no queue.
        await asyncio.shield(self._reading)

    async def _read(self, pod: PodView) -> None:
        rewinds = self._ledger.rewinds
        try:
            found = await self._store.read()
            await self._catch_up(pod)
            self._ledger.replace_claims(found.claims)
            await self._settle_all()
        finally:
            self._reading = None
        self._version = found.version
        self._known = True
        self._rewinds = rewinds
        # What was decided before, and has not been claimed, was decided without these.
        self._term += 1
        self._next = None

    def _is_known(self) -> bool:
        """Return whether the claims were read since the API server last went back in time."""
        return self._known and self._rewinds == self._ledger.rewinds

    async def _settle(self, claim: Claim) -> None:
        pod = await self._pods.pod(claim.namespace, claim.name)
        if _waits(pod, claim.uid):
            pod = await self._pods.invalidate(claim.namespace, claim.name)
            _log.info(
                "called off a Binding of another extender %s",
                fields(pod=f"{claim.namespace}/{claim.name}", uid=claim.uid, node=claim.node),
            )
        if pod is None or pod.uid != claim.uid:
            self._ledger.end_lost(claim.uid)
        elif pod.node != claim.node or not pod.live:
            self._ledger.reservations.drop_claim(claim)

    async def resolve_claim(self, claim: Claim) -> None:
        """Drop a claim of others by which nobody can be bound any more.

        A Binding of it that is under way is called off. Where it was carried out, the claim
        stays until the watch shows it; where nobody can tell now, until that is asked again.
        """
        try:
            await self._settle(claim)
        except (ApiError, PodError) as error:
            _log.warning(
                "claim of another extender not settled %s",
                fields(uid=claim.uid, node=claim.node, reason=error),
            )

    async def write(self) -> bool:
        """Claim the GPUs of all reservations; False where others have written since ``load``.

        Reservations of the same moment are claimed by one write, whose end each of them awaits.

        Raises:
            ApiError: where the claims may or may not stand; if they do, the
                next write finds that the Lease has another version.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._write(self._term))
        return await asyncio.shield(self._next)

    async def _write(self, term: int) -> bool:
        async with self._writing:
            clock = asyncio.get_running_loop().time
            if (pause := self._next_at - clock()) > 0:
                await asyncio.sleep(pause)
            if not self._is_known() or term != self._term:
                return False
            self._next_at = clock() + self._spacing_seconds
            # Whoever reserves from here on goes with the next write.
            self._next = None
            try:
                self._version = await self._store.write(
                    self._ledger.reservations.claims(), version=self._version
                )
            except RejectedError as error:
                if error.status not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                    raise
                _log.info("claims were changed by others %s", fields(reason=error))
                self._known = False
                return False
        return True

    async def _settle_all(self) -> None:
        """Settle what others left under way, so that a pod that fits without it is not refused."""
        async with asyncio.TaskGroup() as tasks:
            for claim in self._ledger.reservations.foreign():
                # One that this process may be binding itself is settled when that has ended.
                if self._ledger.reservations.reservation(claim.uid) is None:
                    tasks.create_task(self.resolve_claim(claim))

    async def _catch_up(self, pod: PodView) -> None:
        before = self._ledger.pods_version
        changed = await self._pods.invalidate(pod.namespace, pod.name)
        if changed is None:
            raise PodError(f"pod {pod.key} is gone")
        if changed.version <= before:
            # A write has a larger version than all that was shown before it.
            self._ledger.list_again()
            raise UnavailableError(
                f"its resource versions went back from {before} to {changed.version}: "
                "waiting for a new list of pods"
            )
        try:
            async with asyncio.timeout(self._patience_seconds):
                # It happens once in the life of a leader: nobody else needs to be told of changes.
                while self._ledger.pods_version < changed.version:  # noqa: ASYNC110
                    await asyncio.sleep(self._look_seconds)
        except TimeoutError:
            raise UnavailableError(
                f"the watch has not shown version {changed.version} of pod "
                f"{pod.namespace}/{pod.name} within {self._patience_seconds} s"
            ) from None


def _waits(pod: PodView | None, uid: str) -> bool:
    return pod is not None and pod.uid == uid and pod.live and pod.node is None
