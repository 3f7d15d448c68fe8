"""Claims that were decided before the claims of other extenders were read are not written."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from gputopo_cluster.claims import Claim
from gputopo_extender.fencing.claim_lease import ClaimLease, StoredClaims
from gputopo_extender.fencing.fence import ClaimFence
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import PodView
from support import virtual_time
from support.builders.objects import pod
from support.builders.requests import pod_view
from support.extender.ledgers import decision_for, ledger_with

FIRST = pod_view(pod("first"))


class WrittenClaims(ClaimLease):
    """A Lease that no other extender writes."""

    def __init__(self) -> None:
        self.written: list[tuple[str | None, set[str]]] = []

    async def read_claims(self) -> StoredClaims:
        return StoredClaims((), None)

    async def write_claims(self, claims: Iterable[Claim], *, version: str | None) -> str:
        self.written.append((version, {claim.uid for claim in claims}))
        return str(len(self.written))


class WatchedPods(PodApi):
    """An API server whose changes the watch shows at once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def invalidate(self, namespace: str, name: str) -> PodView | None:
        assert (namespace, name) == (FIRST.namespace, FIRST.name)
        self._ledger.pods_version += 1
        return replace(FIRST, version=self._ledger.pods_version)


def test_claim_of_a_decision_from_before_the_claims_were_read_is_not_written() -> None:
    with virtual_time.runner() as run:
        assert run.run(_written_of_a_late_claim()) == [(None, {"uid-first"})]


async def _written_of_a_late_claim() -> list[tuple[str | None, set[str]]]:
    """Return what was written, if the claims are read again while a claim waits for its turn."""
    ledger, lease = ledger_with(), WrittenClaims()
    fence = ClaimFence(ledger, lease, WatchedPods(ledger), timeout_seconds=1, spacing_seconds=0.05)
    await fence.load(FIRST)
    assert await fence.claim(decision_for(pod("first"), ledger))
    late = asyncio.create_task(fence.claim(decision_for(pod("late"), ledger)))
    await asyncio.sleep(0)  # the write of this claim waits until 0.05 s after the last write
    ledger.rewinds += 1
    await fence.load(FIRST)
    assert not await late
    return lease.written
