"""Claiming: nothing is given away on a node but by a write that all others must take note of.

See docs/adr/0008-claims-fence-bindings.md for why this holds with several extenders at work,
one of them frozen at any point.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from gputopo.runtime.log import fields
from gputopo_extender.book import Book
from gputopo_extender.claims import Claim
from gputopo_extender.cluster import RefusedError
from gputopo_extender.decide import Decision
from gputopo_extender.leases import Claimed
from gputopo_extender.ledger import Ledger
from gputopo_extender.pods import PodRecord

_log = logging.getLogger(__name__)


class Store(Protocol):
    """Where the claims are kept; see ``leases.Leases``."""

    async def read(self, node: str) -> Claimed:
        """Return the claims on a node as they are now."""
        ...

    async def write(
        self,
        node: str,
        claims: Mapping[str, Claim],
        *,
        version: str | None,
        owners: Sequence[Mapping[str, Any]],
    ) -> str:
        """Put these claims in the place of those of ``version``; return the new version."""
        ...


class Pods(Protocol):
    """What is asked about the pods of others' claims; see ``cluster.Cluster``."""

    async def pod(self, namespace: str, name: str) -> PodRecord | None:
        """Return the pod as it is now."""
        ...

    async def call_off(self, namespace: str, name: str) -> PodRecord | None:
        """Make every Binding of the pod that is under way fail; return the pod then."""
        ...


class Claims:
    """The claims that this process has read or written last; call it under the node's lock."""

    def __init__(self, ledger: Ledger, store: Store, pods: Pods) -> None:
        """Keep the claims in ``ledger``, where they count as used GPUs."""
        self._ledger = ledger
        self._store = store
        self._pods = pods
        self._versions: dict[str, str | None] = {}

    async def load(self, node: str) -> None:
        """Know the claims on a node, from the last write or by reading them.

        What others have claimed and not bound is settled first: their Bindings are called off.

        Raises:
            RefusedError, UnansweredError, ClaimsError, PodError: where that could not be done;
                nothing may be given away then.
        """
        if node in self._versions:
            return
        found = await self._store.read(node)
        settled = await asyncio.gather(
            *(self._holds(node, uid, claim) for uid, claim in found.claims.items())
        )
        holding = zip(found.claims.items(), settled, strict=True)
        self._ledger.replace_claims(node, {uid: claim for (uid, claim), holds in holding if holds})
        self._versions[node] = found.version

    async def settle(self, node: str) -> None:
        """Drop claims whose pods have gone before any watch showed them bound.

        Raises:
            RefusedError, UnansweredError, PodError: where that could not be found out.
        """
        for uid, claim in self._ledger.unseen_claims().get(node, {}).items():
            if not await self._holds(node, uid, claim):
                self._ledger.drop_claim(node, uid)

    async def write(self, decision: Decision) -> bool:
        """Claim the GPUs of a decision; False where others have written since ``load``.

        Raises:
            RefusedError, UnansweredError: where the claim may or may not stand.
        """
        node = decision.node
        book = self._ledger.book(node)
        owners = book.owners if isinstance(book, Book) else ()
        self._ledger.put_claim(decision)
        # Whatever goes wrong, what the API server has then is not known.
        version = self._versions.pop(node)
        try:
            claims = self._ledger.claims(node)
            self._versions[node] = await self._store.write(
                node, claims, version=version, owners=owners
            )
        except RefusedError as error:
            if error.status not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                raise
            _log.info("claims were changed by others %s", fields(node=node, reason=error))
            return False
        return True

    async def _holds(self, node: str, uid: str, claim: Claim) -> bool:
        """Find out whether a pod is bound here, with no chance left that it yet becomes so."""
        known = self._ledger.pod(uid)
        if known is not None and (known.node is not None or not known.live):
            return known.live and known.node == node
        pod = await self._pods.pod(claim.namespace, claim.name)
        if _waits(pod, uid):
            pod = await self._pods.call_off(claim.namespace, claim.name)
            _log.info(
                "called off a Binding of another extender %s",
                fields(pod=f"{claim.namespace}/{claim.name}", uid=uid, node=node),
            )
        return pod is not None and pod.uid == uid and pod.live and pod.node == node


def _waits(pod: PodRecord | None, uid: str) -> bool:
    return pod is not None and pod.uid == uid and pod.live and pod.node is None
