"""Claims GPUs in the Lease, and drops other extenders' claims if their Bindings cannot succeed.

An extender claims the GPUs of a pod before it sends the pod's Binding, so that no other extender
gives these GPUs to another pod. The binder loads the claims, and the binding writer adds claims.
docs/adr/0008-claims-fence-bindings.md explains why this is safe even if an extender freezes.
"""

import asyncio
import logging
from typing import Final

from gputopo.runtime.log import fields
from gputopo_cluster.claims import Claim
from gputopo_extender.fencing.claim_lease import ClaimLease
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView

SPACING_SECONDS: Final = 0.1
"""Least time between the starts of two writes. One write claims all decisions of that time.
The first write after a pause does not wait."""

_POLL_SECONDS: Final = 0.005

_log = logging.getLogger(__name__)


class ClaimFence:
    """The claims of all extenders, as this extender has last read or written them in the Lease."""

    def __init__(
        self,
        ledger: Ledger,
        lease: ClaimLease,
        api: PodApi,
        *,
        timeout_seconds: float,
        spacing_seconds: float = SPACING_SECONDS,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        """Store the claims of other extenders in ``ledger``, which treats the claimed GPUs as used.

        ``load`` waits at most ``timeout_seconds`` until the watch of pods is up to date, and checks
        this every ``poll_seconds``. Writes of the Lease start at least ``spacing_seconds`` apart.
        """
        self._ledger = ledger
        self._lease = lease
        self._api = api
        self._timeout_seconds = timeout_seconds
        self._spacing_seconds = spacing_seconds
        self._poll_seconds = poll_seconds
        self._version: str | None = None
        self._known = False
        self._rewinds = 0
        self._term = 0
        self._read_task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._next: asyncio.Task[bool] | None = None
        self._next_at = 0.0

    async def load(self, pod: PodView) -> None:
        """Read the other extenders' claims, and wait until the watch shows the bound pods.

        Another extender removes a claim when its pod is bound, but this extender's watch may show
        the bound pod later. So this method changes an annotation of ``pod``, which is not bound
        yet, and waits until the watch shows this change. The watch has then shown all earlier
        changes too.

        Raises:
            ApiError, ClaimsError, PodError: the claims are unknown, so the extender must not give
                GPUs to any pod.
        """
        if self._is_known():
            return
        if self._read_task is None:
            self._read_task = asyncio.create_task(self._read(pod))
        # All waiting binds share one result. They also share a failure, so that no queue forms in
        # an outage.
        await asyncio.shield(self._read_task)

    async def claim(self, decision: Decision) -> bool:
        """Reserve the GPUs of a decision, and write the claims of all reservations to the Lease.

        Return False if another extender has written the Lease since ``load``. The GPUs are reserved
        before the first await, so no other bind can choose them. All reservations made within
        ``SPACING_SECONDS`` share one write.

        Raises:
            ApiError: the claims may have been written. If they were, the Lease has a newer version
                than this extender knows, so ``claim`` returns False until ``load`` is called.
        """
        self._ledger.reservations.reserve(decision)
        if self._next is None:
            self._next = asyncio.create_task(self._write(self._term))
        return await asyncio.shield(self._next)

    async def resolve_claim(self, claim: Claim) -> None:
        """Drop a claim of another extender if the claim's Binding cannot succeed any more.

        If the pod is not bound, this method first invalidates a Binding in flight. If the pod is
        bound to the claim's node, the claim stays until the watch shows the bound pod. If the API
        server does not respond, the claim stays until the next call.
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
        # Earlier decisions that are not claimed yet did not consider these claims, so drop them.
        self._term += 1
        self._next = None

    async def _catch_up(self, pod: PodView) -> None:
        before = self._ledger.pods_version
        changed = await self._api.invalidate(pod.namespace, pod.name)
        if changed is None:
            raise PodError(f"pod {pod.key} was deleted")
        if changed.version <= before:
            # Unless etcd was restored, a write has a higher version than all changes received
            # before it.
            self._ledger.relist.set()
            raise UnavailableError(
                f"resource versions went back from {before} to {changed.version}: "
                "waiting for a new list of pods"
            )
        try:
            async with asyncio.timeout(self._timeout_seconds):
                # A leader waits here only once, so polling is enough.
                while self._ledger.pods_version < changed.version:  # noqa: ASYNC110
                    await asyncio.sleep(self._poll_seconds)
        except TimeoutError:
            raise UnavailableError(
                f"the watch has not shown version {changed.version} of pod {pod.key} "
                f"within {self._timeout_seconds} s"
            ) from None

    async def _resolve_all(self) -> None:
        """Resolve the claims of other extenders, so that GPUs of failed Bindings become free."""
        async with asyncio.TaskGroup() as tasks:
            for claim in self._ledger.reservations.of_others():
                # If this process may be binding the pod, the claim is resolved after that bind.
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
        """Return whether the claims are known, and were read after the last restore of etcd."""
        return self._known and self._rewinds == self._ledger.rewinds

    async def _write(self, term: int) -> bool:
        async with self._writing:
            clock = asyncio.get_running_loop().time
            if (pause := self._next_at - clock()) > 0:
                await asyncio.sleep(pause)
            if not self._is_known() or term != self._term:
                return False
            self._next_at = clock() + self._spacing_seconds
            # The next write claims the reservations that are made from now on.
            self._next = None
            claims = self._ledger.reservations.unbound()
            try:
                self._version = await self._lease.write_claims(claims, version=self._version)
            except (ConflictError, NotFoundError) as error:
                _log.info("another extender changed the claims %s", fields(reason=error))
                self._known = False
                return False
        return True
