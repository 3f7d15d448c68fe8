"""Usage of nodes: used, unknown and blocked GPUs."""

import dataclasses
import json

from gputopo.api.names import GPUS_ANNOTATION
from gputopo.catalogue import named
from gputopo_cluster.topologies import GpuNode, UnreadableTopology, parse_gpu_node
from gputopo_cluster.usage import NodeState
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.reservations import BindingProgress
from gputopo_extender.verbs.retries import FilterRetries
from gputopo_scheduling.evaluation import Misfit, MisfitKind
from gputopo_scheduling.node_fits import match_on
from support.builders.objects import at_version, condition, pod, topology_object
from support.builders.requests import pod_view, request_of
from support.extender.ledgers import (
    DGX,
    UUIDS,
    bound,
    claim,
    decision_for,
    ledger_with,
    requested,
    usage,
)


def test_annotated_and_observed_gpus_are_both_used() -> None:
    here = usage(ledger_with(bound("a", 0, 3), used_by={5: "uid-a"}))
    assert here.used == 0b101001
    assert (here.unknown, here.blocked) == (0, None)


def test_observed_pod_that_is_not_known_to_have_ended_uses_its_gpus() -> None:
    assert usage(ledger_with(used_by={5: "uid-unknown"})).used == 0b100000


def test_gpu_with_an_unidentified_user_is_used() -> None:
    document = topology_object("n1", DGX)
    document["status"]["gpus"][2]["pod"] = "nameless"
    ledger = Ledger()
    ledger.put_topology(parse_gpu_node(document))
    assert usage(ledger).used == 0b100


def test_unreadable_annotation_blocks_the_node_until_its_gpus_are_observed() -> None:
    torn = pod("a", 2, node="n1", annotations={GPUS_ANNOTATION: '{"v":1,'})
    ledger = ledger_with(torn)
    assert "default/a" in str(usage(ledger).blocked)
    assert "default/a" in requested(["n1"], ledger, pod("b", 1)).unresolvable()["n1"]
    half = ledger_with(torn, used_by={0: "uid-a"})
    assert usage(half).blocked is not None
    seen = ledger_with(torn, used_by={0: "uid-a", 1: "uid-a"})
    assert (usage(seen).blocked, usage(seen).used) == (None, 0b11)


def test_copied_annotation_does_not_count_and_its_pod_counts_by_number() -> None:
    for copied in (bound("a", 0, 1, uid="uid-other"), bound("a", 0, 1, node="n9")):
        here = usage(ledger_with(copied))
        assert (here.used, here.unknown) == (0, 2)


def test_unmanaged_pod_counts_by_number_until_it_is_observed() -> None:
    unmanaged = pod("a", 3, node="n1")
    assert usage(ledger_with(unmanaged)).unknown == 3
    half = usage(ledger_with(unmanaged, used_by={4: "uid-a"}))
    assert (half.used, half.unknown) == (0b10000, 2)
    ended = pod("a", 3, node="n1", phase="Failed")
    assert usage(ledger_with(ended)).unknown == 0


def test_annotated_gpu_that_left_the_node_is_forgotten() -> None:
    lost = bound("a", 0)
    annotation = json.loads(lost["metadata"]["annotations"][GPUS_ANNOTATION])
    annotation["containers"]["main"].append("GPU-replaced")
    lost["metadata"]["annotations"][GPUS_ANNOTATION] = json.dumps(annotation)
    assert usage(ledger_with(lost)).used == 0b1


def test_nodes_share_a_state_while_their_states_are_equal() -> None:
    ledger = ledger_with()
    ledger.put_topology(parse_gpu_node(topology_object("n2", named("dgx1-v100", node="n2"))))
    ledger.put_pod(pod_view(bound("a", 0)))
    assert ledger.states()["n1"] is not ledger.states()["n2"]
    ledger.drop_pod("uid-a")
    assert ledger.states()["n1"] is ledger.states()["n2"]
    ledger.drop_topology("n2")
    assert list(ledger.states()) == ["n1"]


def test_new_measurements_of_a_node_change_neither_its_usage_nor_the_ledger() -> None:
    ledger = ledger_with(used_by={0: "uid-train"}, pods_version=7)
    before, changes = usage(ledger), ledger.changes()
    measured = topology_object("n1", DGX, used_by={0: "uid-train"}, pods_version=7)
    measured["status"] |= {"measurements": [{"state": "Steady"}], "samples": [{"of": "the future"}]}
    ledger.put_topology(parse_gpu_node(measured))
    assert usage(ledger) is before
    assert ledger.changes() == changes, "a filter that waits for a change evaluates nothing again"
    ledger.put_topology(parse_gpu_node(topology_object("n1", DGX, pods_version=7)))
    assert usage(ledger).used == 0
    assert ledger.changes() > changes


def test_node_whose_agent_is_not_ready_takes_no_pod_and_keeps_its_usage() -> None:
    ledger, not_ready = ledger_with(bound("a", 0)), ledger_with(bound("a", 0), not_ready="Stopping")
    assert dataclasses.replace(usage(not_ready), not_ready=None) == usage(ledger)
    reason = "the node's agent is not ready: Stopping: the message"
    found = requested(["n1"], not_ready, pod("b", 1))
    assert (found.fitting(), found.failed()) == ([], {"n1": reason})
    assert found.unresolvable() == {}
    assert match_on(usage(not_ready).state, request_of(1)) == Misfit(MisfitKind.NOT_READY, reason)
    assert requested(["n1"], not_ready, pod("b", 8)).failed() == {"n1": "too few free GPUs"}


def test_only_a_false_ready_condition_makes_a_node_not_ready() -> None:
    document = topology_object("n1", DGX)
    others = [
        condition("Ready", "Unknown", "Why"),
        condition("GPUsHealthy", "False", "SomeUnhealthy"),
    ]
    for expected in ([], [condition("Ready", "True", "Serving")], others):
        document["status"]["conditions"] = expected
        found = parse_gpu_node(document)
        assert isinstance(found, GpuNode)
        assert found.not_ready is None


def test_long_reason_of_an_agent_is_one_short_line() -> None:
    document = topology_object("n1", DGX, not_ready="NVMLUnavailable")
    document["status"]["conditions"][0]["message"] = "line\n" * 500
    found = parse_gpu_node(document)
    assert isinstance(found, GpuNode)
    assert found.not_ready is not None
    assert len(found.not_ready) == 160
    assert "\n" not in found.not_ready


def test_filter_waits_for_an_agent_if_no_node_fits_without_it() -> None:
    ledger = ledger_with(not_ready="Stopping")
    ledger.put_topology(parse_gpu_node(topology_object("n2", named("summit", node="n2"))))
    waiting, retries = pod_view(pod("a", 8)), FilterRetries(ledger)
    assert retries.reason(waiting, requested(["n1", "n2"], ledger, pod("a", 1))) is None
    assert retries.reason(waiting, requested(["n2", "gone"], ledger, pod("a", 8))) is None
    reason = retries.reason(waiting, requested(["n1", "n2", "gone"], ledger, pod("a", 8)))
    assert reason is not None
    assert reason.startswith(
        "1 of 3 nodes are not ready but may take the pod soon: the node's agent is not ready"
    )


def test_gpu_of_two_live_pods_is_shared() -> None:
    assert usage(ledger_with(bound("a", 0, 1), bound("b", 1, 2))).shared == 0b10


def test_gpus_that_the_agent_does_not_report_are_not_healthy() -> None:
    document = topology_object("n1", DGX, unhealthy=[0])
    del document["status"]["gpus"][7]
    ledger = Ledger()
    ledger.put_topology(parse_gpu_node(document))
    assert usage(ledger).healthy == 0b01111110


def test_topology_that_contradicts_itself_is_unreadable_with_field_and_value() -> None:
    twice = topology_object("n1", DGX)
    twice["spec"]["gpus"][1]["uuid"] = twice["spec"]["gpus"][0]["uuid"]
    wrong = topology_object("n1", DGX)
    wrong["spec"]["links"][0]["kind"] = "Rope"
    for document, words in ((twice, "gpus[].uuid"), (wrong, "links[0].kind")):
        found = parse_gpu_node(document)
        assert isinstance(found, UnreadableTopology)
        assert words in found.reason


def test_ended_pod_frees_its_gpus_by_event_as_by_list() -> None:
    ended = bound("a", 0, 1)
    ended["status"]["phase"] = "Succeeded"
    ledger = ledger_with(bound("a", 0, 1))
    assert usage(ledger).used == 0b11
    ledger.put_pod(pod_view(ended))
    assert usage(ledger).used == 0


def test_nodes_of_equal_structure_get_equal_matches_with_their_own_uuids() -> None:
    ledger = ledger_with()
    ledger.put_topology(parse_gpu_node(topology_object("n2", named("dgx1-v100", node="n2"))))
    assert ledger.states()["n1"] is ledger.states()["n2"]
    assert requested(["n1", "n2"], ledger, pod("a", 3)).fitting() == ["n1", "n2"]
    written = decision_for(pod("a", 3), ledger).annotations[GPUS_ANNOTATION]
    assert set(json.loads(written)["containers"]["main"]) <= set(UUIDS)


def test_ledger_knows_the_newest_version_of_any_pod() -> None:
    ledger = ledger_with(at_version(pod("a"), 12), at_version(pod("b"), 9))
    assert ledger.pods_version == 12
    for _ in range(2):  # a list may show the same version again
        ledger.replace_pods([], epoch=ledger.begin_pod_list(), version=30)
        assert ledger.pods_version == 30
        assert ledger.rewinds == 0


def test_list_with_a_smaller_version_voids_known_versions() -> None:
    ledger = ledger_with(at_version(pod("a", 2), 40))
    ledger.reservations.reserve(decision_for(pod("a", 2), ledger))
    ledger.reservations.mark("uid-a", BindingProgress.BOUND)
    restored = pod_view(at_version(pod("a", 2), 15))
    ledger.replace_pods([restored], epoch=ledger.begin_pod_list(), version=20)
    assert (ledger.pods_version, ledger.rewinds, ledger.relist.is_set()) == (20, 1, True)
    reservation = ledger.reservations.get("uid-a")
    assert reservation is not None
    assert reservation.progress is BindingProgress.UNKNOWN, (
        "the restored pod does not show its Binding"
    )
    ledger.put_pod(pod_view(at_version(pod("b"), 21)))
    assert ledger.pods_version == 21


def test_state_without_some_pods_changes_nothing() -> None:
    ledger = ledger_with(bound("a", 0, 1), bound("b", 2))
    ledger.replace_claims([claim("c", 3)])
    without = ledger.state_without("n1", {"uid-a", "uid-c"})
    assert isinstance(without, NodeState)
    assert without.free == 0b11111011
    assert usage(ledger).used == 0b1111
    assert ledger.state_without("unknown", {"uid-a"}) is None
