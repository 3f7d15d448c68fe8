"""A pod that is gone when its Binding or claim is resolved may have started."""

import asyncio
from collections.abc import Iterable

from gputopo.topology.model import mask_of
from gputopo_cluster.claims import Claim
from gputopo_extender.fencing.binding_writer import BindingWriter
from gputopo_extender.fencing.claim_lease import ClaimLease, StoredClaims
from gputopo_extender.fencing.fence import ClaimFence
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ended_pods import UNKNOWN_VERSION_WAIT_SECONDS
from gputopo_kube.errors import UnavailableError
from gputopo_kube.pods import PodView
from support.builders.objects import at_version, pod
from support.builders.requests import pod_view
from support.extender.ended_pods import (
    BOUND,
    DELETED,
    DGX,
    LATER,
    World,
    bound,
    list_pods,
    reserve,
)


class NoPods(PodApi):
    """An API server that has no pod, and no response to a Binding."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], PodView] = {}

    async def bind(self, decision: Decision) -> None:
        raise UnavailableError(f"no response for {decision.claim.name}")

    async def get_pod(self, namespace: str, name: str) -> PodView | None:
        return self.found.get((namespace, name))

    async def invalidate(self, namespace: str, name: str) -> PodView | None:
        raise AssertionError(f"there is no pod {namespace}/{name}")


class NoLease(ClaimLease):
    """Claims are neither read nor written."""

    def __init__(self) -> None:
        pass

    async def read_claims(self) -> StoredClaims:
        raise AssertionError

    async def write_claims(self, claims: Iterable[Claim], *, version: str | None) -> str:
        raise AssertionError((claims, version))


def test_pod_that_is_gone_when_its_binding_is_resolved_may_have_started(world: World) -> None:
    world.put(pod("old", 2))
    decision = reserve(world, pod("old", 2))
    fence = ClaimFence(world.ledger, NoLease(), NoPods(), timeout_seconds=1)
    writer = BindingWriter(world.ledger, NoPods(), fence)
    assert "the pod was deleted" in asyncio.run(writer.resolve(decision)).error
    assert world.ledger.reservations.own() == ()
    assert world.usage.deleted == mask_of(decision.match.gpus)
    world.report(LATER)
    assert world.usage.deleted == mask_of(decision.match.gpus), (
        "the deletion may be newer than this status"
    )
    world.delete(bound(), LATER)
    assert world.usage.used == 0, "the watch has shown its version"


def test_pod_that_is_gone_when_a_claim_for_it_is_resolved_may_have_started(world: World) -> None:
    claim = Claim("uid-b", "default", "b", "7", "n1", (DGX.gpus[2].uuid,))
    world.ledger.replace_claims([claim])
    fence = ClaimFence(world.ledger, NoLease(), NoPods(), timeout_seconds=1)
    asyncio.run(fence.resolve_claim(claim))
    assert (world.ledger.reservations.of_others(), world.usage.deleted) == ((), 0b100)
    world.clock.now += UNKNOWN_VERSION_WAIT_SECONDS
    assert world.usage.used == 0


def test_claim_of_a_bound_pod_stays_until_the_watch_shows_the_binding(world: World) -> None:
    claim = Claim("uid-b", "default", "b", "7", "n1", (DGX.gpus[2].uuid,))
    world.ledger.replace_claims([claim])
    api = NoPods()
    api.found["default", "b"] = pod_view(pod("b", node="n1"))
    fence = ClaimFence(world.ledger, NoLease(), api, timeout_seconds=1)
    asyncio.run(fence.resolve_claim(claim))
    assert world.ledger.reservations.of_others() == (claim,)
    for _ in range(2):
        world.ledger.reservations.drop_claim(claim)
        assert world.ledger.reservations.of_others() == ()


class OneClaim(NoLease):
    """A Lease with one claim."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim

    async def read_claims(self) -> StoredClaims:
        return StoredClaims((self.claim,), "1")


class ShownPods(NoPods):
    """An API server whose watch shows each change of a pod at once."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def invalidate(self, namespace: str, name: str) -> PodView | None:
        assert namespace == "default"
        self.world.put(pod(name), LATER)
        return pod_view(at_version(pod(name), LATER))


def test_claim_for_a_pod_that_this_process_binds_is_resolved_after_the_bind(world: World) -> None:
    world.put(pod("old", 2))
    reserve(world, pod("old", 2))
    claim = Claim("uid-old", "default", "old", "7", "n1", (DGX.gpus[5].uuid,))
    fence = ClaimFence(world.ledger, OneClaim(claim), ShownPods(world), timeout_seconds=1)
    asyncio.run(fence.load(pod_view(pod("next"))))
    assert world.ledger.reservations.of_others() == (claim,)


def claim_of_b(version: int) -> Claim:
    return Claim("uid-b", "default", "b", str(version), "n1", (DGX.gpus[2].uuid,))


def load_next(world: World, claim: Claim) -> None:
    """Read the claims for the first time, as a restarted extender does at its first bind."""
    fence = ClaimFence(world.ledger, OneClaim(claim), ShownPods(world), timeout_seconds=1)
    asyncio.run(fence.load(pod_view(pod("next"))))
    assert world.ledger.reservations.of_others() == ()


def test_claim_that_a_killed_extender_left_delays_no_pod_a_minute_later(world: World) -> None:
    list_pods(world, DELETED)
    world.clock.now += UNKNOWN_VERSION_WAIT_SECONDS
    load_next(world, claim_of_b(BOUND))
    assert world.usage.used == 0, "the first list has already shown that the pod is gone"


def test_pod_that_ended_just_before_the_first_list_may_still_run(world: World) -> None:
    list_pods(world, DELETED)
    world.clock.now += UNKNOWN_VERSION_WAIT_SECONDS - 1.0
    load_next(world, claim_of_b(BOUND))
    assert world.usage.deleted == 0b100
    world.clock.now += 1.0
    assert world.usage.used == 0


def test_claim_changes_nothing_for_a_pod_whose_end_the_watch_has_shown(world: World) -> None:
    list_pods(world, BOUND)
    world.put(bound("b", 2, states="running"), BOUND + 2)
    world.delete(bound("b", 2, states="running"), DELETED)
    load_next(world, claim_of_b(BOUND + 1))
    world.clock.now += UNKNOWN_VERSION_WAIT_SECONDS
    assert world.usage.deleted == 0b100, "its node has not confirmed the end yet"
    world.report(DELETED)
    assert world.usage.used == 0


def test_claim_of_a_listed_pod_does_not_shorten_the_wait_for_its_end(world: World) -> None:
    running = bound("b", 2, states="running")
    list_pods(world, BOUND, pod_view(at_version(running, BOUND)))
    world.delete(running, DELETED)
    load_next(world, claim_of_b(BOUND - 1))
    world.clock.now += UNKNOWN_VERSION_WAIT_SECONDS
    assert world.usage.deleted == 0b100


def test_claim_of_a_pod_that_the_watch_has_not_shown_yet_waits(world: World) -> None:
    list_pods(world, BOUND)
    load_next(world, claim_of_b(LATER + 1))
    assert world.usage.deleted == 0b100
    world.clock.now += UNKNOWN_VERSION_WAIT_SECONDS
    assert world.usage.used == 0


def test_claim_of_a_pod_whose_deletion_is_not_shown_yet_waits(world: World) -> None:
    world.put(pod("b"), BOUND)
    world.ledger.replace_claims([claim_of_b(BOUND)])
    world.ledger.end_lost("uid-b")
    assert world.usage.deleted == 0b100
