"""The ledger's states of nodes for pods with rules about pods to avoid."""

from gputopo.catalogue import named
from gputopo_cluster.topologies import UnreadableTopology, parse_gpu_node
from gputopo_cluster.usage import NodeState
from gputopo_extender.state.ledger import Ledger
from support.builders.objects import Document, avoiding, pod, topology_object
from support.builders.requests import pod_view
from support.builders.topologies import gpus
from support.extender.ledgers import bound, claim, ledger_with

FIRST, SECOND = gpus(0, 1, 2, 3), gpus(4, 5, 6, 7)
QUIET = pod_view(pod("quiet", 2, annotations=avoiding(app="noisy")))
NAMES = ["n1", "n2", "missing"]


def labelled(document: Document, **labels: str) -> Document:
    document["metadata"]["labels"] = labels
    return document


def cluster(*pods: Document) -> Ledger:
    ledger = ledger_with(*pods)
    ledger.put_topology(parse_gpu_node(topology_object("n2", named("dgx1-v100", node="n2"))))
    return ledger


def usable(ledger: Ledger, document: Document) -> int:
    (state,) = ledger.states_for(pod_view(document), ["n1"])
    assert isinstance(state, NodeState)
    return state.usable(state.free)


def test_only_nodes_with_pods_to_avoid_have_a_state_of_their_own() -> None:
    ledger = cluster(labelled(bound("noisy", 0), app="noisy"))
    common, other = ledger.states_for(pod_view(pod("a")), NAMES)[:2]
    assert (common, other) == (ledger.states()["n1"], ledger.states()["n2"])
    own, same, missing = ledger.states_for(QUIET, NAMES)
    assert (same, missing) == (other, None)
    assert isinstance(own, NodeState)
    assert own.usable(own.free) == SECOND
    assert ledger.states_for(QUIET, NAMES)[0] is own
    equal = pod_view(pod("equal", 2, annotations=avoiding(app="noisy")))
    assert ledger.states_for(equal, NAMES)[0] is own


def test_running_pod_with_a_rule_keeps_matching_pods_off_until_it_ends() -> None:
    quiet = bound("quiet", 4)
    quiet["metadata"]["annotations"] |= avoiding(app="noisy")
    ledger = cluster(quiet)
    noisy = labelled(pod("noisy", 1), app="noisy")
    assert usable(ledger, noisy) == FIRST
    assert usable(ledger, labelled(pod("other", 1), app="other")) == FIRST | gpus(5, 6, 7)
    ended = pod_view({**quiet, "status": {"phase": "Failed", "reason": "x"}})
    ledger.put_pod(ended)
    ledger.drop_pod(ended.uid)
    ledger.drop_topology("n1")
    assert ledger.states_for(pod_view(noisy), ["n1"]) == [None]


def test_reservations_and_claims_count() -> None:
    ledger = cluster()
    ledger.put_pod(pod_view(labelled(pod("noisy", 1), app="noisy")))
    ledger.replace_claims([claim("noisy", 0)])
    state = ledger.states_for(QUIET, ["n1"])[0]
    assert isinstance(state, NodeState)
    assert state.usable(state.free) == SECOND
    ledger.replace_claims([claim("unknown", 0)])
    assert usable(ledger, pod("a")) == gpus()


def test_claim_for_the_pod_itself_is_not_avoided() -> None:
    ledger = cluster()
    own = labelled(pod("own", 2, annotations=avoiding(app="noisy")), app="noisy")
    ledger.put_pod(pod_view(own))
    ledger.replace_claims([claim("own", 0)])
    assert usable(ledger, own) == gpus(*range(1, 8))
    assert usable(ledger, labelled(pod("other", 1), app="noisy")) == SECOND


def test_state_without_victims_has_no_restriction_by_them() -> None:
    ledger = cluster(labelled(bound("noisy", 0), app="noisy"), bound("other", 4))
    freed = ledger.state_without("n1", {"uid-noisy"}, QUIET)
    assert isinstance(freed, NodeState)
    assert freed.usable(freed.free) == FIRST | gpus(5, 6, 7)
    kept = ledger.state_without("n1", {"uid-other"}, QUIET)
    assert isinstance(kept, NodeState)
    assert kept.usable(kept.free) == SECOND


def test_unreadable_topology_stays_unreadable_for_every_pod() -> None:
    ledger = cluster(labelled(bound("noisy", 0), app="noisy"))
    odd = UnreadableTopology("n1", "odd")
    ledger.put_topology(odd)
    assert ledger.states_for(QUIET, ["n1"]) == [odd]


def test_states_of_many_different_pods_are_not_all_kept() -> None:
    ledger = cluster(labelled(bound("noisy", 0), app="noisy"))
    found = {
        id(ledger.states_for(pod_view(pod("a", 1, annotations=avoiding(app=f"a{it}"))), ["n1"])[0])
        for it in range(70)
    }
    assert found == {id(ledger.states()["n1"])}
