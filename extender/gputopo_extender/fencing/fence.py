"""Writes the claims of this extender to the Lease, and resolves those of other extenders.

No Binding is written before its GPUs are claimed by a write that every other extender must notice.
The binder loads the claims; the binding writer claims. docs/adr/0008-claims-fence-bindings.md
explains why this is safe with several extenders, of which one may be frozen at any point.
"""

import asyncio
import logging
from typing import Final

from gputopo.runtime.log import fields
from gputopo_extender.fencing.claim_lease import ClaimLease
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.state.claim import Claim
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView

SPACING_SECONDS: Final = 0.1
"""Time between the beginnings of two writes. Decisions made in between are claimed in one write.
The first write after a pause does not wait."""

_LOOK_SECONDS: Final = 0.005

_log = logging.getLogger(__name__)


class ClaimFence:
    """The claims of all extenders, as of the last read or write."""

    def __init__(
        self,
        ledger: Ledger,
        lease: ClaimLease,
        api: PodApi,
        *,
        timeout_seconds: float,
        spacing_seconds: float = SPACING_SECONDS,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        """Keep the claims of others in ``ledger``, where they count as used GPUs.

        Wait at most ``timeout_seconds`` for the watch of pods.
        """
        self._ledger = ledger
        self._lease = lease
        self._api = api
        self._timeout_seconds = timeout_seconds
        self._spacing_seconds = spacing_seconds
        self._look_seconds = look_seconds
        self._version: str | None = None
        self._known = False
        self._rewinds = 0
        self._term = 0
        self._read_task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._next: asyncio.Task[bool] | None = None
        self._next_at = 0.0

    async def load(self, pod: PodView) -> None:
        """Read the claims of others, and wait until the watch shows what they had bound before.

        A claim is left out of the Lease once its pod is bound, which the watch may show later. So
        ``pod``, which waits to be bound, is changed. When the watch shows this change, it has
        shown everything before it.

        Raises:
            ApiError, ClaimsError, PodError: nothing may be given away then.
        """
        if self._is_known():
            return
        if self._read_task is None:
            self._read_task = asyncio.create_task(self._read(pod))
        # All binds that wait share the result, also a failure: an outage causes no queue.
        await asyncio.shield(self._read_task)

    async def claim(self, decision: Decision) -> bool:
        """Reserve the GPUs of a decision, and write the claims of all reservations.

        The reservation is made before the first await. Reservations of the same moment share one
        write. Return False if others have written since ``load``.

        Raises:
            ApiError: the claims may have been written. If they were, the next write finds another
                version of the Lease.
        """
        self._ledger.reservations.reserve(decision)
        if self._next is None:
            self._next = asyncio.create_task(self._write(self._term))
        return await asyncio.shield(self._next)

    async def resolve_claim(self, claim: Claim) -> None:
        """Drop a claim of another extender if its Binding cannot succeed any more.

        A Binding in flight is invalidated. If it was carried out, the claim stays until the watch
        shows it. If the result is unknown, the claim stays until the next call.
        """
        try:
            await self._resolve(claim)
        except (ApiError, PodError) as error:
            _log.warning(
                "claim of another extender not resolved %s",
                fields(uid=claim.uid, node=claim.node, reason=error),
            )

    async def _read(self, pod: PodView) -> None:
        rewinds = self._ledger.rewinds
        try:
            stored = await self._lease.read_claims()
            await self._catch_up(pod)
            self._ledger.replace_claims(stored.claims)
            await self._resolve_all()
        finally:
            self._read_task = None
        self._version = stored.version
        self._known = True
        self._rewinds = rewinds
        # Decisions that were made before and are not claimed yet did not consider these claims.
        self._term += 1
        self._next = None

    async def _catch_up(self, pod: PodView) -> None:
        before = self._ledger.pods_version
        changed = await self._api.invalidate(pod.namespace, pod.name)
        if changed is None:
            raise PodError(f"pod {pod.key} is gone")
        if changed.version <= before:
            # A write has a larger version than all changes that were shown before it.
            self._ledger.relist.set()
            raise UnavailableError(
                f"its resource versions went back from {before} to {changed.version}: "
                "waiting for a new list of pods"
            )
        try:
            async with asyncio.timeout(self._timeout_seconds):
                # This happens once in the life of a leader, so polling is enough.
                while self._ledger.pods_version < changed.version:  # noqa: ASYNC110
                    await asyncio.sleep(self._look_seconds)
        except TimeoutError:
            raise UnavailableError(
                f"the watch has not shown version {changed.version} of pod {pod.key} "
                f"within {self._timeout_seconds} s"
            ) from None

    async def _resolve_all(self) -> None:
        """Resolve the Bindings of others in flight, so that their GPUs are not reserved longer."""
        async with asyncio.TaskGroup() as tasks:
            for claim in self._ledger.reservations.of_others():
                # A pod that this process may be binding is resolved after that bind.
                if self._ledger.reservations.get(claim.uid) is None:
                    tasks.create_task(self.resolve_claim(claim))

    async def _resolve(self, claim: Claim) -> None:
        pod = await self._api.get_pod(claim.namespace, claim.name)
        if pod is not None and pod.uid == claim.uid and pod.live and pod.node is None:
            pod = await self._api.invalidate(claim.namespace, claim.name)
            _log.info(
                "invalidated a Binding of another extender %s",
                fields(pod=claim.pod, uid=claim.uid, node=claim.node),
            )
        if pod is None or pod.uid != claim.uid:
            self._ledger.end_lost(claim.uid)
        elif pod.node != claim.node or not pod.live:
            self._ledger.reservations.drop_claim(claim)

    def _is_known(self) -> bool:
        """Return whether the claims were read since etcd was last restored."""
        return self._known and self._rewinds == self._ledger.rewinds

    async def _write(self, term: int) -> bool:
        async with self._writing:
            clock = asyncio.get_running_loop().time
            if (pause := self._next_at - clock()) > 0:
                await asyncio.sleep(pause)
            if not self._is_known() or term != self._term:
                return False
            self._next_at = clock() + self._spacing_seconds
            # Later reservations are claimed by the next write.
            self._next = None
            claims = self._ledger.reservations.unbound()
            try:
                self._version = await self._lease.write_claims(claims, version=self._version)
            except (ConflictError, NotFoundError) as error:
                _log.info("another extender changed the claims %s", fields(reason=error))
                self._known = False
                return False
        return True
