"""A snapshot made from lists has the usages of an extender that started with the same lists."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.names import RESOURCE
from gputopo.sharing.policy import Preference, SharingPolicy, Unknown
from gputopo_cluster.claims import parse_claims
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_cluster.usage import NodeState, NodeUsage
from gputopo_explain.snapshot import ClusterSnapshot, snapshot_of
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import parse_gpu_pod
from gputopo_scheduling.sharing_knowledge import SharingKnowledge
from gputopo_scheduling.surroundings import interference_facts
from support.builders.clusters import Lists, random_lists
from support.builders.requests import pod_view
from support.property_settings import fuzzed, tried
from support.shares import LARGE, SMALL, random_sharing_lists, sharing_pod

FACTS = interference_facts([SMALL, LARGE])
POLICIES = [
    SharingPolicy.of(),
    SharingPolicy.of(unknown=Unknown.TRY),
    SharingPolicy.of(max_slowdown_percent=25, preference=Preference.IDLE),
]


def started(lists: Lists) -> Ledger:
    """Return the ledger of an extender that has read the lists, and then the claims."""
    ledger = Ledger(lambda: 0.0)
    ledger.interference.replace(FACTS.workloads.values())
    epoch = ledger.begin_pod_list()
    ledger.replace_topologies(map(parse_gpu_node, lists.topologies))
    pods = [parse_gpu_pod(document, RESOURCE) for document in lists.pods]
    ledger.replace_pods([pod for pod in pods if pod is not None], epoch=epoch, version=90)
    ledger.replace_claims(parse_claims(lists.leases[0]["metadata"]["annotations"]))
    return ledger


@fuzzed
@given(st.randoms())
def test_snapshot_has_the_usages_and_states_of_the_ledger(chance: Random) -> None:
    tried("clusters")
    lists = random_lists(chance)
    ledger, found = started(lists), snapshot_of(lists.topologies, lists.pods, lists.leases)
    assert found.usages == ledger.usages()
    for name, state in ledger.states().items():
        if isinstance(state, NodeState):
            other = found.state_for(name)
            assert isinstance(other, NodeState)
            assert other.key == state.key


@fuzzed
@given(st.randoms())
def test_snapshot_without_pods_is_the_state_that_preemption_expects(chance: Random) -> None:
    lists = random_lists(chance)
    ledger, found = started(lists), snapshot_of(lists.topologies, lists.pods, lists.leases)
    live = sorted(pod.uid for pod in found.pods if pod.live)
    ended = frozenset(uid for uid in live if chance.random() < 0.5)
    after = found.without_pods(ended)
    for name in found.nodes:
        state, expected = after.state_for(name), ledger.state_without(name, ended)
        if isinstance(state, NodeState):
            assert isinstance(expected, NodeState)
            assert state.key == expected.key
        else:
            assert state == expected


@fuzzed
@given(st.randoms())
def test_end_of_pods_never_takes_a_free_gpu(chance: Random) -> None:
    lists = random_lists(chance)
    found = snapshot_of(lists.topologies, lists.pods, lists.leases)
    uids = sorted(pod.uid for pod in found.pods)
    after = found.without_pods(uid for uid in uids if chance.random() < 0.5)
    for name, usage in found.usages.items():
        later = after.usages[name]
        if isinstance(usage, NodeUsage):
            assert isinstance(later, NodeUsage)
            assert usage.free & ~later.free == 0


@fuzzed
@given(st.randoms())
def test_snapshot_has_the_state_of_the_ledger_for_a_pod_that_requests_a_share(
    chance: Random,
) -> None:
    tried("clusters with shared GPUs")
    lists, policy = random_sharing_lists(chance), chance.choice(POLICIES)
    ledger = started(lists)
    ledger.interference.set_sharing_policy(policy)
    knowledge = SharingKnowledge.of(FACTS, policy)
    found = snapshot_of(lists.topologies, lists.pods, lists.leases, sharing=knowledge)
    assert found.usages == ledger.usages()
    view = pod_view(sharing_pod("new", profile=chance.choice(["small", "large", ""])))
    names = [*found.nodes]
    for name, expected in zip(names, ledger.states_for(view, names), strict=True):
        state, usage = found.state_for(name, view), ledger.usage(name)
        assert isinstance(state, NodeState)
        assert isinstance(expected, NodeState)
        assert isinstance(usage, NodeUsage)
        assert state.key == expected.key == ledger.state_for(usage, view).key
    _check_after_end(chance, ledger, found)


def _check_after_end(chance: Random, ledger: Ledger, found: ClusterSnapshot) -> None:
    view = pod_view(sharing_pod("new"))
    ended = frozenset(pod.uid for pod in found.pods if chance.random() < 0.5)
    after = found.without_pods(ended)
    for name in found.nodes:
        state, expected = after.state_for(name, view), ledger.state_without(name, ended, view)
        assert isinstance(state, NodeState)
        assert isinstance(expected, NodeState)
        assert state.key == expected.key
