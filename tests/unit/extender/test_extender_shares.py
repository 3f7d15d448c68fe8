"""The ledger's states and decisions for pods that share GPUs."""

import json
from typing import Any

import pytest

from gputopo.api.annotations import parse_placement
from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.sharing.policy import Preference, SharingPolicy, Unknown
from gputopo_cluster.topologies import GpuNode, UnreadableTopology, parse_gpu_node
from gputopo_cluster.usage import NodeState
from gputopo_explain.placed.recorded import recorded_placement
from gputopo_explain.placed.replay import ReplayVerdict, replay
from gputopo_extender.settings import ExtenderSettings
from gputopo_extender.state import sharing_states
from gputopo_extender.state.interference import REFRESH_SECONDS
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.retries import FilterRetries
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import MisfitKind, evaluation
from gputopo_scheduling.node_fits import evaluate_states
from gputopo_scheduling.sharing_state import sharing_state
from gputopo_scheduling.surroundings import parse_workload
from support.builders.objects import Document, at_version, avoiding, pod
from support.builders.requests import pod_view, request_in
from support.builders.shares import sharing_pod, sharing_topology
from support.builders.sharing_facts import sharing_profile
from support.builders.topologies import gpus
from support.extender.sharing import (
    TOPOLOGY,
    UUIDS,
    bound,
    decided,
    sharing_ledger,
    usage_of,
)

MODEL = TOPOLOGY.gpus[0].model
NEW = pod_view(sharing_pod("new", "a"))


def placed(name: str, workload: str, gpu: int, number: int = 0, **fields: Any) -> Document:
    return sharing_pod(name, workload, share=f"{UUIDS[gpu]}::{number}", **fields)


def whole(name: str, gpu: int) -> Document:
    document = sharing_pod(name, share=UUIDS[gpu])
    document["spec"]["containers"] = pod(name)["spec"]["containers"]
    return document


def state(ledger: Ledger, view: PodView, node: str = "n1") -> NodeState:
    (found,) = ledger.states_for(view, [node])
    assert isinstance(found, NodeState)
    return found


def test_states_are_those_of_the_decision_and_are_kept() -> None:
    ledger = sharing_ledger(placed("x", "b", 1))
    found = state(ledger, NEW)
    assert found.free == gpus(1)
    assert found.key == sharing_state(usage_of(ledger), NEW, ledger.interference.sharing).key
    assert state(ledger, NEW) is found
    equal = pod_view(sharing_pod("equal", "a"))
    assert state(ledger, equal) is found
    assert ledger.state_for(usage_of(ledger), NEW).key == found.key


class Later:
    """A clock on which all facts are older than the time after which they are read again."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += REFRESH_SECONDS + 1
        return self.now


def test_states_follow_the_node_and_the_facts() -> None:
    ledger = sharing_ledger(placed("x", "b", 1), clock=Later())
    assert state(ledger, NEW).free == gpus(1)
    ledger.put_pod(pod_view(placed("y", "a", 2)))
    assert state(ledger, NEW).free == gpus(2)
    ledger.drop_pod("uid-x")
    ledger.interference.replace([])
    assert state(ledger, NEW).free == gpus(0, 1)


def test_pods_with_other_limits_have_states_of_their_own() -> None:
    ledger = sharing_ledger(placed("x", "b", 1))
    assert state(ledger, pod_view(sharing_pod("new", "a", limit=1))).free == gpus(0, 2)
    assert state(ledger, pod_view(sharing_pod("new", "a", memory="28Gi"))).free == gpus(0, 2)
    assert state(ledger, pod_view(sharing_pod("new", "c"))).free == gpus(0, 2)
    assert state(ledger, NEW).free == gpus(1)
    quiet = sharing_pod("new", "a", annotations=avoiding(app="noisy"))
    noisy = placed("z", "a", 2, labels={"app": "noisy"})
    ledger.put_pod(pod_view(noisy))
    assert state(ledger, NEW).free == gpus(2)
    assert state(ledger, pod_view(quiet)).free == gpus(1)


def test_pod_with_a_reservation_is_not_beside_itself() -> None:
    ledger = sharing_ledger(placed("x", "b", 1))
    state(ledger, NEW)
    ledger.put_pod(NEW)
    decision = decided(ledger, NEW)
    assert decision is not None
    ledger.reservations.reserve(decision)
    assert decision.claim.gpus == (f"{UUIDS[1]}::1",)
    assert state(ledger, NEW).free == gpus(1)
    [other] = [each for each in usage_of(ledger).occupants if each.uid == "uid-new"]
    assert other.shares == {f"{UUIDS[1]}::1"}
    third = pod_view(sharing_pod("third", "d"))
    assert state(ledger, third).free == gpus(0, 2)


def test_states_of_a_bound_pod_are_not_those_of_equal_pods() -> None:
    ledger = sharing_ledger(placed("x", "b", 1), placed("new", "a", 1, 1), most_pods=2)
    assert state(ledger, NEW).free == gpus(1)
    assert state(ledger, pod_view(sharing_pod("equal", "a"))).free == gpus(0, 2)


def test_nodes_without_topology_have_no_states() -> None:
    ledger = sharing_ledger()
    ledger.put_topology(parse_gpu_node({**sharing_topology("n2", TOPOLOGY), "spec": {"gpus": 3}}))
    missing, invalid = ledger.states_for(NEW, ["missing", "n2"])
    assert missing is None
    assert isinstance(invalid, UnreadableTopology)


def test_least_recently_used_states_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing_states, "_MOST_PODS", 2)
    ledger = sharing_ledger()
    views = [pod_view(sharing_pod("p", workload)) for workload in "abc"]
    for view in views:
        state(ledger, view)
    kept = [key[0] for key in ledger._shares._kept]  # type: ignore[index]
    assert kept == ["default/b", "default/c"]
    state(ledger, views[1])
    state(ledger, views[0])
    assert [key[0] for key in ledger._shares._kept] == ["default/b", "default/a"]  # type: ignore[index]


def test_knowledge_is_new_if_the_facts_or_the_settings_change() -> None:
    ledger = sharing_ledger(clock=Later())
    first = ledger.interference.sharing
    assert ledger.interference.sharing is first
    ledger.interference.replace([parse_workload(sharing_profile("a", ("a", 900), model=MODEL))])
    second = ledger.interference.sharing
    assert second is not first
    assert [*second.measured] == [MODEL]
    ledger.interference.set_sharing_policy(SharingPolicy(preference=Preference.IDLE))
    assert ledger.interference.sharing.policy.preference is Preference.IDLE


def test_decision_names_the_share_and_why() -> None:
    ledger = sharing_ledger(placed("x", "b", 1))
    decision = decided(ledger, NEW)
    assert decision is not None
    assert decision.claim.gpus == (f"{UUIDS[1]}::1",)
    assert json.loads(decision.annotations[GPUS_ANNOTATION])["containers"] == {
        "main": [f"{UUIDS[1]}::1"]
    }
    figures = parse_placement(decision.annotations)
    assert figures is not None
    assert figures.sharing is not None
    assert (figures.sharing.share, figures.sharing.beside) == (f"{UUIDS[1]}::1", ["default/x"])
    ledger.reservations.reserve(decision)
    usage = usage_of(ledger)
    assert decision.is_current(usage, NEW)
    assert not decision.is_current(usage_of(sharing_ledger(generation=2)), NEW)
    assert not decision.is_current(usage_of(sharing_ledger(unhealthy=[1])), NEW)
    assert not decision.is_current(usage_of(sharing_ledger(faults={1: "no response"})), NEW)
    assert decision.is_current(usage_of(sharing_ledger(served={1: "no response"})), NEW)


def test_decision_for_a_whole_gpu_ends_when_mps_serves_the_gpu() -> None:
    view = pod_view(pod("whole", 1))
    decision = decided(sharing_ledger(), view)
    assert decision is not None
    assert decision.is_current(usage_of(sharing_ledger(faults={0: "no response"})), view)
    assert not decision.is_current(usage_of(sharing_ledger(served={0: "no response"})), view)


def test_share_of_a_gpu_that_mps_still_serves_is_recorded_with_the_gpu() -> None:
    decision = decided(sharing_ledger(served={0: "no response"}), NEW)
    assert decision is not None
    assert decision.claim.gpus == (f"{UUIDS[0]}::0",)
    record = json.loads(decision.annotations[PLACEMENT_ANNOTATION])["replay"]
    assert 0 in record["free"]


def test_whole_gpu_pod_gets_no_share() -> None:
    ledger = sharing_ledger(placed("x", "b", 0))
    view = pod_view(pod("whole", 1))
    decision = decided(ledger, view)
    assert decision is not None
    assert decision.claim.gpus == (UUIDS[1],)
    figures = parse_placement(decision.annotations)
    assert figures is not None
    assert figures.sharing is None


@pytest.mark.parametrize(
    ("pods", "fields", "annotations"),
    [
        ((placed("x", "b", 1),), {}, {}),
        ((), {}, {}),
        ((), {"faults": {0: "x"}}, {}),
        ((placed("x", "b", 1, labels={"app": "noisy"}),), {}, avoiding(app="noisy")),
        (
            (placed("x", "b", 1), placed("y", "c", 0, labels={"app": "noisy"})),
            {},
            avoiding(app="noisy"),
        ),
    ],
)
def test_replay_gives_the_recorded_choice(
    pods: tuple[Document, ...], fields: dict[str, Any], annotations: dict[str, str]
) -> None:
    ledger = sharing_ledger(*pods, **fields)
    view = pod_view(sharing_pod("new", "a", annotations=annotations))
    decision = decided(ledger, view)
    assert decision is not None
    node = parse_gpu_node(sharing_topology("n1", TOPOLOGY))
    assert isinstance(node, GpuNode)
    found = replay(recorded_placement(bound(view, decision)), node)
    assert (found.verdict, found.reasons) == (ReplayVerdict.SAME, ())


def test_states_without_victims() -> None:
    ledger = sharing_ledger(placed("x", "c", 0), whole("y", 1), whole("z", 2))
    assert state(ledger, NEW).free == 0
    without = ledger.state_without("n1", {"uid-x"}, NEW)
    assert isinstance(without, NodeState)
    assert without.free == gpus(0)
    other = ledger.state_without("n1", {"uid-y"}, NEW)
    assert isinstance(other, NodeState)
    assert other.free == gpus(1)
    large = pod_view(pod("large", 1))
    for view in (large, None):
        found = ledger.state_without("n1", {"uid-x"}, view)
        assert isinstance(found, NodeState)
        assert found.free == gpus(0)


def test_deleted_sharing_pod_keeps_its_share_until_it_has_stopped() -> None:
    ledger = sharing_ledger(whole("y", 1), whole("z", 2))
    running = placed("x", "c", 0, phase="Running")
    ledger.put_pod(pod_view(at_version(running, 10)))

    def report(version: int) -> None:
        document = sharing_topology("n1", TOPOLOGY)
        document["status"]["observedPodsVersion"] = str(version)
        ledger.put_topology(parse_gpu_node(document))

    report(10)
    ledger.drop_pod("uid-x", pod_view(at_version(running, 20)))
    usage = usage_of(ledger)
    assert usage.deleted == gpus(0)
    assert usage.shares == {f"{UUIDS[0]}::0"}
    assert usage.state.in_shares == gpus(0)
    assert decided(ledger, NEW) is None
    assert "processes of deleted pod default/x" in str(retried(ledger, NEW))
    report(20)
    found = decided(ledger, NEW)
    assert found is not None
    assert found.claim.gpus == (f"{UUIDS[0]}::0",)


def retried(ledger: Ledger, view: PodView) -> str | None:
    states = ledger.states_for(view, ["n1"])
    found = evaluation(["n1"], states, evaluate_states(states, request_in(view)))
    return FilterRetries(ledger).reason(view, found)


def test_pods_that_wait_for_shares_to_end_are_not_tried_again_at_once() -> None:
    shared = sharing_ledger(placed("x", "c", 0), whole("y", 1), whole("z", 2))
    large = pod_view(pod("large", 1))
    assert retried(shared, large) is None
    assert retried(shared, NEW) is None
    assert retried(sharing_ledger(*(whole(f"w{n}", n) for n in range(3))), NEW) is None
    used = sharing_ledger(*(whole(f"w{n}", n) for n in range(3)))
    assert "does not yet" in str(retried(used, large))


def test_misfits_of_shares_may_end() -> None:
    assert {MisfitKind.SHARED, MisfitKind.NOT_SHARED} <= set(MisfitKind)
    ledger = sharing_ledger(placed("x", "c", 0), whole("y", 1), whole("z", 2))
    states = ledger.states_for(NEW, ["n1"])
    found = evaluation(["n1"], states, evaluate_states(states, request_in(NEW)))
    assert found.unresolvable() == {}
    assert found.failed()["n1"].endswith("sharing would not pay")


def test_settings_of_the_extender_are_the_policy() -> None:
    policy = ExtenderSettings().sharing_policy
    assert policy.settings.margin == pytest.approx(1.05)
    assert (policy.unknown, policy.preference) == (Unknown.EXCLUSIVE, Preference.SHARED)
    assert policy.max_slowdown_percent == 100
    other = ExtenderSettings(
        sharing_min_gain_percent=0,
        sharing_max_slowdown_percent=7,
        sharing_unknown_pairs=Unknown.TRY,
        sharing_preference=Preference.IDLE,
    ).sharing_policy
    assert other.settings.margin == 1
    assert (other.unknown, other.preference, other.max_slowdown_percent) == (
        Unknown.TRY,
        Preference.IDLE,
        7,
    )


def test_most_pods_is_that_of_the_node() -> None:
    ledger = sharing_ledger(placed("x", "a", 0), most_pods=2)
    second = decided(ledger, NEW)
    assert second is not None
    assert second.claim.gpus == (f"{UUIDS[0]}::1",)
    ledger.put_pod(bound(NEW, second))
    third = decided(ledger, pod_view(at_version(sharing_pod("third", "a"), 9)))
    assert third is not None
    assert third.claim.gpus == (f"{UUIDS[1]}::0",)
