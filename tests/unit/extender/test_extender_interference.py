"""The surroundings of nodes in the ledger, from pods, reservations and GPUProfiles."""

from weakref import ref

import pytest

from gputopo.catalogue import named
from gputopo.utility.interference import RunningNeighbour, WorkloadKind
from gputopo_cluster.topologies import UnreadableTopology, parse_gpu_node
from gputopo_cluster.usage import NodeState
from gputopo_extender.state.interference import (
    MOST_WORKLOADS,
    REFRESH_SECONDS,
    NodeInterference,
)
from gputopo_extender.state.ledger import Ledger
from gputopo_scheduling.evaluation import SurroundedState
from gputopo_scheduling.surroundings import NOTHING_RUNS, KnownWorkload, parse_workload
from support.builders.node_reports import beside, learnt_profile
from support.builders.objects import Document, pod, topology_object
from support.builders.requests import pod_view
from support.builders.topologies import gpus
from support.extender.ledgers import bound, claim, decision_for

QUIET = parse_workload(learnt_profile("quiet", beside("default/noisy", 30)))
NOISY = parse_workload(learnt_profile("noisy", sensitivity="Insensitive"))
FIRST, SECOND = gpus(0, 1, 2, 3), gpus(4, 5, 6, 7)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    """Return a ledger with the idle nodes n1 and n2, and a known slowdown."""
    found = Ledger(clock)
    for name in ("n1", "n2"):
        found.put_topology(parse_gpu_node(topology_object(name, named("dgx1-v100", node=name))))
    found.interference.replace([QUIET])
    return found


def noisy(document: Document) -> Document:
    document["metadata"]["annotations"]["gputopo.io/profile"] = "noisy"
    return document


def test_surroundings_follow_pods_and_reservations(ledger: Ledger) -> None:
    assert ledger.surroundings("n1") is ledger.surroundings("n2") is NOTHING_RUNS
    ledger.put_pod(pod_view(noisy(bound("a", 0, 1))))
    first = ledger.surroundings("n1")
    assert first.neighbours == (RunningNeighbour(WorkloadKind("default/noisy"), FIRST),)
    assert ledger.surroundings("n1") is first
    assert ledger.surroundings("n2") is NOTHING_RUNS
    assert ledger.surroundings_without("n1", {"uid-a"}) is NOTHING_RUNS
    waiting = noisy(pod("b", 4))
    ledger.put_pod(pod_view(waiting))
    ledger.reservations.reserve(decision_for(waiting, ledger))
    assert len(ledger.surroundings("n1").neighbours) == 2
    assert ledger.surroundings_without("n1", {"uid-b"}).neighbours == first.neighbours
    ledger.reservations.release("uid-b")
    assert ledger.surroundings("n1") is first


def test_keys_of_nodes_as_if_idle_have_the_state_of_idle_nodes(ledger: Ledger) -> None:
    ledger.put_pod(pod_view(noisy(bound("a", 0, 1))))
    state, idle = ledger.states()["n1"], ledger.states()["n2"]
    assert isinstance(state, NodeState)
    assert ledger.idle_key(state) is idle
    surrounded = ledger.idle_key(SurroundedState(state, ledger.surroundings("n1")))
    assert isinstance(surrounded, SurroundedState)
    assert surrounded == (idle, NOTHING_RUNS)
    assert ledger.idle_key(None) is None


def test_claim_for_an_unknown_pod_is_an_unknown_workload(ledger: Ledger) -> None:
    ledger.replace_claims([claim("other", 4)])
    found = ledger.surroundings("n1").neighbours
    assert found == (RunningNeighbour(WorkloadKind(""), SECOND),)


def test_node_without_a_valid_topology_has_no_surroundings(ledger: Ledger) -> None:
    ledger.put_topology(UnreadableTopology("n3", "odd"))
    for node in ("n3", "missing"):
        assert ledger.surroundings(node) is NOTHING_RUNS
        assert ledger.surroundings_without(node, set()) is NOTHING_RUNS


def test_new_facts_appear_after_some_seconds(ledger: Ledger, clock: Clock) -> None:
    ledger.put_pod(pod_view(noisy(bound("a", 0))))
    before, facts = ledger.surroundings("n1"), ledger.interference.facts
    ledger.interference.put(QUIET)
    assert ledger.interference.facts is facts
    clock.now += REFRESH_SECONDS
    assert ledger.interference.facts is facts  # nothing has changed
    ledger.interference.put(NOISY)
    assert ledger.surroundings("n1").neighbours[0].workload.group == "Insensitive"
    assert ledger.surroundings("n1") is not before
    ledger.interference.drop("default/quiet")
    ledger.interference.drop("default/unknown")
    assert ledger.surroundings("n1") is not NOTHING_RUNS
    clock.now += REFRESH_SECONDS
    assert ledger.surroundings("n1") is NOTHING_RUNS


def test_other_percentages_keep_the_surroundings(ledger: Ledger, clock: Clock) -> None:
    ledger.put_pod(pod_view(noisy(bound("a", 0))))
    before = ledger.surroundings("n1")
    clock.now += REFRESH_SECONDS
    ledger.interference.put(parse_workload(learnt_profile("quiet", beside("default/noisy", 31))))
    assert ledger.interference.facts.slowdowns.worst == pytest.approx(1.31)
    assert ledger.surroundings("n1") is before


def test_removed_node_is_forgotten(ledger: Ledger) -> None:
    ledger.put_pod(pod_view(noisy(bound("a", 0))))
    assert ledger.surroundings("n1") is not NOTHING_RUNS
    ledger.drop_topology("n1")
    assert ledger.surroundings("n1") is NOTHING_RUNS


def test_node_that_is_missing_from_a_list_is_forgotten(ledger: Ledger) -> None:
    ledger.put_pod(pod_view(noisy(bound("a", 0, 1))))
    kept = ref(ledger.surroundings("n1"))
    assert kept() is not None
    ledger.replace_topologies(
        [parse_gpu_node(topology_object("n2", named("dgx1-v100", node="n2")))]
    )
    assert kept() is None
    assert ledger.surroundings("n2") is NOTHING_RUNS


def declared(name: str, namespace: str = "default") -> KnownWorkload:
    """Return a workload whose owner declares its sensitivity."""
    kind = WorkloadKind(f"{namespace}/{name}", "Insensitive")
    return KnownWorkload(kind)


def test_profile_that_shows_nothing_is_not_kept(clock: Clock) -> None:
    interference = NodeInterference(clock)
    new = KnownWorkload(WorkloadKind("default/new"))
    interference.put(new)
    interference.replace([new, QUIET])
    assert [*interference.facts.workloads] == ["default/quiet"]
    interference.put(KnownWorkload(QUIET.kind))
    clock.now += REFRESH_SECONDS
    assert not interference.facts.workloads


def test_namespace_with_too_many_profiles_does_not_hide_those_of_others(clock: Clock) -> None:
    interference = NodeInterference(clock)
    many = [declared(f"p{number}") for number in range(MOST_WORKLOADS + 5)]
    interference.replace([*many, declared("a", "other")])
    assert len(interference.facts.workloads) == MOST_WORKLOADS + 1
    assert interference.full_namespaces() == 1
    interference.put(declared("one-more"))
    interference.put(declared("b", "other"))
    interference.put(KnownWorkload(WorkloadKind("default/p0", "Sensitive")))  # it is kept already
    clock.now += REFRESH_SECONDS
    found = interference.facts.workloads
    assert len(found) == MOST_WORKLOADS + 2
    assert found["default/p0"].kind.group == "Sensitive"
    interference.drop("default/p0")
    assert interference.full_namespaces() == 0
    interference.put(declared("one-more"))
    clock.now += REFRESH_SECONDS
    assert "default/one-more" in interference.facts.workloads
    interference.replace([])
    assert interference.full_namespaces() == 0
