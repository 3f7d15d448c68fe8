"""GPUs of ended pods are used until no process of them is known to run."""

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.topology.model import mask_of
from gputopo_extender.fencing.binding_writer import BindingWriter
from gputopo_extender.fencing.claim_lease import ClaimLease, StoredClaims
from gputopo_extender.fencing.fence import ClaimFence
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.state.decision import Decision, decide
from gputopo_extender.state.ended_pods import LONGEST_WAIT_SECONDS, UNKNOWN_VERSION_WAIT_SECONDS
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.reservations import BindingProgress
from gputopo_extender.verbs.retries import FilterRetries
from gputopo_kube.errors import UnavailableError
from gputopo_kube.pods import PodView
from gputopo_scheduling.claims import Claim
from gputopo_scheduling.evaluation import (
    Evaluation,
    Misfit,
    MisfitKind,
    evaluate_states,
    evaluation,
    match_on,
)
from gputopo_scheduling.record import request_origin
from gputopo_scheduling.topologies import UnreadableTopology, parse_node
from gputopo_scheduling.usage import NodeState, NodeUsage
from gputopo_topologies.catalogue import named
from support.builders.objects import Document, at_version, container_states, pod, topology_object
from support.builders.requests import pod_view, request_in, request_of

DGX = named("dgx1-v100", node="n1")
BOUND, DELETED, LATER = 10, 20, 30


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """A ledger of one node, whose agent reports the pods' version unless expected otherwise."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.ledger = Ledger(self.clock)
        self.report(BOUND)

    def report(
        self, version: int | None, held: Mapping[int, str] | None = None, *, deleted: bool = False
    ) -> None:
        marked = held if deleted and held else ()
        document = topology_object("n1", DGX, used_by=held, deleted=marked, pods_version=version)
        self.ledger.put_topology(parse_node(document))

    def put(self, document: Document, version: int = BOUND) -> None:
        self.ledger.put_pod(pod_view(at_version(document, version)))

    def delete(self, document: Document, version: int = DELETED) -> None:
        last = pod_view(at_version(document, version))
        self.ledger.drop_pod(last.uid, last)

    @property
    def usage(self) -> NodeUsage:
        found = self.ledger.usage("n1")
        assert isinstance(found, NodeUsage)
        return found

    def requested(self, gpus: int) -> Evaluation:
        states = [self.ledger.states().get("n1")]
        return evaluation(["n1"], states, evaluate_states(states, request_of(gpus)))


@pytest.fixture
def world() -> World:
    return World()


def bound(name: str = "old", *gpus: int, phase: str = "Running", states: str = "") -> Document:
    uuids = [DGX.gpus[index].uuid for index in gpus or (0, 1)]
    annotation = GpusAnnotation(
        uid=f"uid-{name}", node="n1", generation=1, containers={"main": uuids}
    )
    document = pod(
        name,
        len(uuids),
        node="n1",
        phase=phase,
        annotations={GPUS_ANNOTATION: annotation.dump()},
    )
    document["status"]["containerStatuses"] = container_states(*states.split())
    return document


RUNNING = bound(states="running")
ENDED = bound(phase="Succeeded", states="terminated")


def reserve(world: World, document: Document) -> Decision:
    request = request_in(pod_view(document))
    match = match_on(world.usage.state, request)
    assert not isinstance(match, Misfit)
    decision = decide(
        pod_view(document),
        request,
        match,
        node="n1",
        usage=world.usage,
        origin=request_origin(pod_view(document).annotations),
        compared=None,
    )
    world.ledger.reservations.reserve(decision)
    return decision


def test_pod_that_kubelet_reported_as_stopped_frees_its_gpus_at_once(world: World) -> None:
    world.put(RUNNING)
    world.report(BOUND, {0: "uid-old", 1: "uid-old"})
    assert world.usage.used == 0b11
    world.put(ENDED, 15)
    assert world.usage.used == 0
    world.report(15, {0: "uid-old", 1: "uid-old"})
    world.delete(ENDED)
    assert world.usage.used == 0, "the status lists it, but it is known to have ended"
    world.report(DELETED)
    assert (world.usage.used, world.ledger.ended_pods("n1")) == (0, [])
    world.report(DELETED, {0: "uid-old"})
    assert world.usage.used == 0b1, "an end is not remembered for longer than needed"


def test_event_of_a_deletion_may_be_the_first_to_show_that_it_stopped(world: World) -> None:
    world.put(RUNNING)
    world.delete(ENDED)
    assert world.usage.used == 0


def test_forced_deletion_keeps_the_gpus_until_the_agent_confirms(world: World) -> None:
    world.put(RUNNING)
    world.delete(RUNNING)
    assert (world.usage.used, world.usage.deleted, world.usage.free) == (0b11, 0b11, 0b11111100)
    assert world.ledger.ended_pods("n1") == ["default/old"]
    world.report(DELETED - 1)
    assert world.usage.used == 0b11, "the status was written before the agent knew of it"
    world.report(DELETED, {0: "uid-old", 1: "uid-old"})
    assert world.usage.used == 0b11
    world.report(LATER, {0: "uid-old", 1: "uid-old"}, deleted=True)
    assert (world.usage.used, world.usage.deleted) == (0b11, 0b11)
    world.report(LATER)
    assert (world.usage.used, world.usage.deleted, world.usage.shared) == (0, 0, 0)
    assert world.ledger.ended_pods("n1") == []


def test_agent_that_is_faster_than_the_watch_confirms_the_end(world: World) -> None:
    world.put(RUNNING)
    world.report(LATER)
    world.delete(RUNNING)
    assert world.usage.used == 0


def test_pod_garbage_collection_does_not_confirm_the_end(world: World) -> None:
    world.put(RUNNING)
    collected = bound(phase="Failed", states="running")
    world.put(collected, 15)
    world.delete(collected)
    assert world.usage.used == 0b11
    world.report(15)
    assert world.usage.used == 0, "the end is when the phase became terminal"


def test_ended_pod_frees_its_gpus_when_kubelet_reports_it_stopped(world: World) -> None:
    world.put(RUNNING)
    world.put(bound(phase="Failed", states="running"), 15)
    assert world.usage.used == 0b11
    world.put(bound(phase="Failed", states="terminated"), 16)
    assert world.usage.used == 0


def test_pod_that_kubelet_rejected_is_free_unless_it_had_started_before(world: World) -> None:
    rejected = bound(phase="Failed")
    rejected["status"]["reason"] = "UnexpectedAdmissionError"
    world.put(bound(phase="Pending"))
    world.put(rejected, 15)
    assert world.usage.used == 0
    again = bound("restarted", 4, states="running")
    world.put(again)
    kubelet_restarted = bound("restarted", 4, phase="Failed")
    kubelet_restarted["status"]["reason"] = "NodeAffinity"
    world.put(kubelet_restarted, 16)
    world.put(kubelet_restarted, 17)
    assert world.usage.used == 0b10000


def test_pod_that_was_never_bound_leaves_nothing(world: World) -> None:
    world.put(pod("waits", 2))
    world.delete(pod("waits", 2))
    assert (world.usage.used, world.ledger.ended_pods("n1")) == (0, [])


def test_deletion_of_an_unknown_pod_without_a_record_changes_nothing(world: World) -> None:
    world.put(RUNNING)
    world.ledger.drop_pod("uid-unknown")
    assert (world.usage.used, world.ledger.ended_pods("n1")) == (0b11, [])


def test_list_of_a_smaller_version_leaves_other_reservations_unchanged(world: World) -> None:
    world.put(pod("old", 2))
    reserve(world, pod("old", 2))
    list_pods(world, BOUND - 1, pod_view(pod("old", 2)))
    (kept,) = world.ledger.reservations.own()
    assert kept.progress is BindingProgress.WRITING


def test_process_of_a_deleted_pod_counts_whatever_the_ledger_knows(world: World) -> None:
    world.report(BOUND, {3: "uid-unknown"}, deleted=True)
    assert (world.usage.used, world.usage.deleted) == (0b1000, 0b1000)
    assert world.ledger.ended_pods("n1") == ["default/uid-unknown"]
    world.put(RUNNING)
    world.put(ENDED, 15)
    world.report(15, {0: "uid-old"}, deleted=True)
    assert world.usage.used == 0b1, "kubelet's word does not outweigh a process"


def test_agent_that_does_not_report_versions_frees_gpus_at_once(world: World) -> None:
    world.report(None, {0: "uid-old", 1: "uid-old"})
    world.put(RUNNING)
    assert world.usage.used == 0b11
    world.delete(RUNNING)
    assert (world.usage.used, world.usage.deleted) == (0, 0)


def test_new_gputopology_without_status_confirms_no_end(world: World) -> None:
    world.put(RUNNING)
    world.delete(RUNNING)
    world.ledger.drop_topology("n1")
    created = topology_object("n1", DGX)
    del created["status"]
    world.ledger.put_topology(parse_node(created))
    assert world.usage.used == 0b11
    world.report(DELETED - 1)
    assert (world.usage.used, world.usage.deleted) == (0b11, 0b11)
    world.report(DELETED)
    assert world.usage.used == 0


def test_pod_that_vanished_between_two_lists_was_deleted(world: World) -> None:
    world.put(RUNNING)
    world.ledger.replace_pods([], epoch=world.ledger.begin_pod_list(), version=DELETED)
    assert world.usage.used == 0b11
    world.report(DELETED)
    assert world.usage.used == 0


def list_pods(world: World, version: int, *pods: PodView) -> None:
    world.ledger.replace_pods(pods, epoch=world.ledger.begin_pod_list(), version=version)


def test_agent_that_dropped_a_vanished_pod_has_seen_its_deletion(world: World) -> None:
    world.put(RUNNING)
    world.report(BOUND, {0: "uid-old", 1: "uid-old"})
    list_pods(world, 500)
    assert (world.usage.used, world.usage.deleted) == (0b11, 0b11)
    world.report(DELETED, {0: "uid-old", 1: "uid-old"}, deleted=True)
    assert world.usage.used == 0b11
    world.report(DELETED)
    assert world.usage.used == 0, "the node is quiet: no larger version may follow"


def test_agent_may_have_dropped_a_vanished_pod_before_the_list(world: World) -> None:
    world.put(RUNNING)
    world.report(BOUND, {0: "uid-old", 1: "uid-old"})
    world.report(DELETED)
    list_pods(world, 500)
    assert world.usage.used == 0


def test_status_that_never_listed_a_vanished_pod_may_be_older_than_its_containers(
    world: World,
) -> None:
    world.put(RUNNING)
    list_pods(world, 500)
    world.report(DELETED)
    assert world.usage.used == 0b11
    world.clock.now += UNKNOWN_VERSION_WAIT_SECONDS - 0.1
    assert world.usage.used == 0b11
    world.clock.now += 0.1
    assert world.usage.used == 0


def test_unknown_pods_that_a_status_has_listed_are_forgotten(world: World) -> None:
    world.report(BOUND, {0: "uid-old", 1: "uid-old"})
    list_pods(world, BOUND)
    world.report(BOUND)
    world.put(RUNNING, DELETED)
    list_pods(world, 500)
    world.report(DELETED + 1)
    assert world.usage.used == 0b11, "the pod was unknown when pods were listed"


@pytest.mark.parametrize(
    "progress", [BindingProgress.WRITING, BindingProgress.UNKNOWN, BindingProgress.BOUND]
)
def test_pod_that_vanished_before_any_watch_showed_its_binding_may_have_started(
    world: World, progress: BindingProgress
) -> None:
    world.put(pod("old", 2))
    decision = reserve(world, pod("old", 2))
    world.ledger.reservations.mark("uid-old", progress)
    list_pods(world, 500)
    assert world.ledger.reservations.own() == ()
    assert world.usage.used == world.usage.deleted == mask_of(decision.match.gpus)
    assert world.ledger.ended_pods("n1") == ["default/old"]
    world.report(500)
    assert world.usage.used == 0


def test_pod_that_another_extender_claimed_for_may_have_started(world: World) -> None:
    gpus = (DGX.gpus[2].uuid, DGX.gpus[3].uuid)
    world.ledger.replace_claims([Claim("uid-b", "default", "b", "7", "n1", gpus)])
    list_pods(world, 500)
    assert (world.ledger.reservations.unbound(), world.usage.deleted) == ((), 0b1100)
    world.clock.now += UNKNOWN_VERSION_WAIT_SECONDS
    assert world.usage.used == 0


def test_list_without_a_bound_pod_keeps_its_last_view(world: World) -> None:
    world.put(pod("old", 2))
    reserve(world, pod("old", 2))
    world.put(RUNNING)
    list_pods(world, 500)
    assert (world.usage.used, world.usage.deleted) == (0b11, 0b11)


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


def test_ended_pod_is_kept_while_the_status_lists_it(world: World) -> None:
    world.put(RUNNING)
    world.report(BOUND, {0: "uid-old", 1: "uid-old"})
    world.delete(RUNNING)
    world.clock.now += 10 * LONGEST_WAIT_SECONDS
    assert (world.usage.used, world.usage.deleted) == (0b11, 0b11)
    assert world.ledger.ended_pods("n1") == ["default/old"]
    world.report(DELETED)
    assert (world.usage.used, world.ledger.ended_pods("n1")) == (0, [])


def test_pods_that_ended_before_a_list_are_not_new_in_the_next(world: World) -> None:
    collected = pod_view(at_version(bound(phase="Failed", states="running"), 15))
    world.ledger.replace_pods([collected], epoch=world.ledger.begin_pod_list(), version=15)
    assert world.usage.used == 0b11
    world.report(15)
    assert world.usage.used == 0
    world.report(14)
    world.ledger.replace_pods([collected], epoch=world.ledger.begin_pod_list(), version=16)
    world.ledger.drop_pod(collected.uid, collected)
    assert world.usage.used == 0


def test_unconfirmed_gpus_are_free_after_the_longest_wait_without_any_event(world: World) -> None:
    world.put(RUNNING)
    world.delete(RUNNING)
    changes = world.ledger.changes()
    world.clock.now += LONGEST_WAIT_SECONDS - 1
    assert world.usage.used == 0b11
    assert world.ledger.changes() == changes
    world.clock.now += 1
    assert world.usage.used == 0
    assert world.ledger.changes() > changes


def test_end_of_a_pod_outlives_the_topology_of_its_node(world: World) -> None:
    world.put(RUNNING)
    world.ledger.drop_topology("n1")
    world.delete(RUNNING)
    assert world.ledger.usage("n1") is None
    world.report(BOUND)
    assert world.usage.used == 0b11
    world.ledger.put_topology(UnreadableTopology("n1", "why"))
    assert world.ledger.ended_pods("n1") == ["default/old"]
    world.report(DELETED)
    assert world.usage.used == 0


def test_end_of_a_pod_on_a_node_that_never_returns_is_forgotten(world: World) -> None:
    world.put(RUNNING)
    world.ledger.drop_topology("n1")
    world.delete(RUNNING)
    world.clock.now += LONGEST_WAIT_SECONDS
    world.ledger.usage("n1")
    assert world.ledger.ended_pods("n1") == []


def test_after_a_restore_of_etcd_smaller_versions_confirm_and_pods_come_back(world: World) -> None:
    world.put(RUNNING, 90)
    world.put(bound("other", 4, states="running"), 91)
    world.delete(RUNNING, 95)
    world.delete(bound("other", 4, states="running"), 96)
    restored = pod_view(at_version(bound("other", 4, states="running"), 40))
    world.ledger.replace_pods([restored], epoch=world.ledger.begin_pod_list(), version=50)
    assert (world.usage.used, world.usage.deleted) == (0b10011, 0b11)
    world.report(50, {4: "uid-other"})
    assert (world.usage.used, world.usage.deleted) == (0b10000, 0)


def test_gpus_that_a_live_pod_has_as_well_are_not_freed_by_the_end_of_the_other(
    world: World,
) -> None:
    world.put(RUNNING)
    world.put(bound("new", 1, 2, states="running"))
    world.delete(RUNNING)
    assert (world.usage.used, world.usage.deleted, world.usage.shared) == (0b111, 0b1, 0)


def test_deleted_pod_of_another_scheduler_counts_by_number(world: World) -> None:
    unmanaged = pod("unmanaged", 3, node="n1", phase="Running")
    world.put(unmanaged)
    world.delete(unmanaged)
    assert world.usage.unknown == 3
    world.report(DELETED)
    assert world.usage.unknown == 0


def test_state_without_victims_still_has_processes_of_deleted_pods(
    world: World,
) -> None:
    world.put(RUNNING)
    world.put(bound("gone", 4, states="running"))
    world.report(BOUND, {0: "uid-old", 1: "uid-old", 5: "uid-earlier"}, deleted=True)
    world.report(BOUND, {0: "uid-old", 1: "uid-old", 4: "uid-gone"})
    world.delete(bound("gone", 4, states="running"))
    state = world.ledger.state_without("n1", {"uid-old"})
    assert isinstance(state, NodeState)
    assert (state.free, state.deleted) == (0b11101111, 0b10000)


def test_error_names_the_deleted_pod_whose_processes_are_awaited(world: World) -> None:
    world.put(RUNNING)
    world.delete(RUNNING)
    found = world.requested(7)
    assert found.failed() == {"n1": "GPUs in use by processes of deleted pods"}
    assert found.misfit_counts == {MisfitKind.DELETED_PODS: 1}
    reason = FilterRetries(world.ledger).reason(pod_view(pod("next", 7)), found)
    assert reason == (
        "n1: GPUs in use by processes of deleted pod default/old: waiting until they end"
    )
    assert world.requested(6).fitting() == ["n1"]


def test_pod_that_would_not_fit_without_the_process_waits_for_other_pods(world: World) -> None:
    world.put(RUNNING)
    world.put(bound("live", 7, states="running"))
    world.delete(RUNNING)
    assert world.requested(8).misfit_counts == {MisfitKind.BUSY: 1}
