"""A pod that a new list lacks was deleted; its GPUs are used until its end is confirmed."""

import pytest

from gputopo.topology.model import mask_of
from gputopo_cluster.claims import Claim
from gputopo_extender.state.ended_pods import UNKNOWN_VERSION_WAIT_SECONDS
from gputopo_extender.state.reservations import BindingProgress
from support.builders.objects import at_version, pod
from support.builders.requests import pod_view
from support.extender.ended_pods import (
    BOUND,
    DELETED,
    DGX,
    RUNNING,
    World,
    bound,
    list_pods,
    reserve,
)


def test_list_of_a_smaller_version_leaves_other_reservations_unchanged(world: World) -> None:
    world.put(pod("old", 2))
    reserve(world, pod("old", 2))
    list_pods(world, BOUND - 1, pod_view(pod("old", 2)))
    (kept,) = world.ledger.reservations.own()
    assert kept.progress is BindingProgress.WRITING


def test_pod_that_vanished_between_two_lists_was_deleted(world: World) -> None:
    world.put(RUNNING)
    world.ledger.replace_pods([], epoch=world.ledger.begin_pod_list(), version=DELETED)
    assert world.usage.used == 0b11
    world.report(DELETED)
    assert world.usage.used == 0


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
