"""GPUs of ended pods are used until no process of them is known to run."""

from gputopo_cluster.topologies import UnreadableTopology, parse_gpu_node
from gputopo_cluster.usage import NodeState
from gputopo_extender.state.ended_pods import LONGEST_WAIT_SECONDS
from gputopo_extender.verbs.retries import FilterRetries
from gputopo_scheduling.evaluation import MisfitKind
from support.builders.objects import pod, topology_object
from support.builders.requests import pod_view
from support.extender.ended_pods import BOUND, DELETED, DGX, ENDED, LATER, RUNNING, World, bound


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
    world.ledger.put_topology(parse_gpu_node(created))
    assert world.usage.used == 0b11
    world.report(DELETED - 1)
    assert (world.usage.used, world.usage.deleted) == (0b11, 0b11)
    world.report(DELETED)
    assert world.usage.used == 0


def test_ended_pod_is_kept_while_the_status_lists_it(world: World) -> None:
    world.put(RUNNING)
    world.report(BOUND, {0: "uid-old", 1: "uid-old"})
    world.delete(RUNNING)
    world.clock.now += 10 * LONGEST_WAIT_SECONDS
    assert (world.usage.used, world.usage.deleted) == (0b11, 0b11)
    assert world.ledger.ended_pods("n1") == ["default/old"]
    world.report(DELETED)
    assert (world.usage.used, world.ledger.ended_pods("n1")) == (0, [])


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
    # The scheduler may not know yet that a victim was deleted.
    for victims in ({"uid-old"}, {"uid-old", "uid-gone"}):
        state = world.ledger.state_without("n1", victims)
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
