"""Requests with the policy Utility have surroundings, and their nodes have keys of their own."""

from itertools import count

import pytest

from gputopo.api.names import RESOURCE
from gputopo.catalogue import named
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.placement.paths import surroundings_on_node
from gputopo.utility.utility import UtilityWeights
from gputopo_cluster.topologies import UnreadableTopology, parse_gpu_node
from gputopo_cluster.usage import NodeState
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import Misfit, MisfitKind, SurroundedState
from gputopo_scheduling.surroundings import NOTHING_RUNS, parse_workload
from support.builders.node_reports import beside, learnt_profile
from support.builders.objects import pod, topology_object
from support.builders.requests import pod_view
from support.extender.ledgers import bound, ledger_with

WEIGHTS = UtilityWeights.of_percents(50, 40, 10)


def requests_on(ledger: Ledger, policy: PolicyName = PolicyName.UTILITY) -> PodRequests:
    return PodRequests(ledger, resource=RESOURCE, default_policy=policy, weights=WEIGHTS)


def valid(requests: PodRequests, view: PodView) -> PlacementRequest:
    request = requests.of(view)
    assert isinstance(request, PlacementRequest)
    return request


def annotated(**values: str) -> PodView:
    annotations = {f"gputopo.io/{name.replace('_', '-')}": value for name, value in values.items()}
    return pod_view(pod("a", 2, annotations=annotations))


def test_request_with_utility_has_the_kinds_of_nodes_and_the_weights() -> None:
    ledger = ledger_with()
    for name in ("n2", "n3"):
        ledger.put_topology(parse_gpu_node(topology_object(name, named("pcie-8gpu", node=name))))
    ledger.put_topology(UnreadableTopology("n4", "no"))
    requests = requests_on(ledger)
    found = valid(requests, annotated(min_utility_percent="30")).surroundings
    assert found is not None
    assert found.weights is WEIGHTS
    kinds = {named(each).fingerprint for each in ("dgx1-v100", "pcie-8gpu")}
    assert [each.topology.fingerprint for each in found.kinds] == sorted(kinds)
    assert valid(requests, annotated()).surroundings == found
    ledger.drop_topology("n1")
    later = valid(requests, annotated()).surroundings
    assert later is not None
    assert len(later.kinds) == 1


def test_requests_with_other_policies_have_no_surroundings() -> None:
    requests = requests_on(ledger_with())
    assert valid(requests, annotated(policy="Greedy")).surroundings is None


def test_least_utility_is_kept_and_does_not_change_the_evaluation() -> None:
    requests = requests_on(ledger_with())
    with_minimum = valid(requests, annotated(min_utility_percent="30"))
    assert with_minimum.min_utility_percent == 30
    assert with_minimum == valid(requests, annotated())


@pytest.mark.parametrize("policy", [PolicyName.PRESERVE, PolicyName.GREEDY])
def test_least_utility_without_the_policy_utility_is_rejected(policy: PolicyName) -> None:
    rejected = requests_on(ledger_with(), policy).of(annotated(min_utility_percent="30"))
    assert rejected == Misfit(
        MisfitKind.REJECTED,
        "gputopo.io/min-utility-percent: allowed with gputopo.io/policy=Utility only, "
        f"not {policy}",
    )


def test_keys_of_nodes_have_the_state_and_the_running_jobs() -> None:
    ledger = ledger_with(bound("runs", 0, 1))
    requests = requests_on(ledger)
    request = valid(requests, annotated())
    key, missing = requests.states(pod_view(pod("new", 2)), request, ["n1", "bare"])
    assert key == SurroundedState(ledger.states()["n1"], NOTHING_RUNS)  # type: ignore[arg-type]
    assert missing is None
    without = requests.state_without(pod_view(pod("new", 2)), request, "n1", {"uid-runs"})
    assert isinstance(without, SurroundedState)
    assert without.state.free == without.state.healthy
    assert without != key


def test_keys_of_other_policies_are_the_states() -> None:
    ledger = ledger_with()
    requests = requests_on(ledger, PolicyName.PRESERVE)
    [key] = requests.states(pod_view(pod("new", 2)), valid(requests, annotated()), ["n1"])
    assert isinstance(key, NodeState)
    assert key is ledger.states()["n1"]
    view = annotated()
    assert requests.state_without(view, valid(requests, view), "n1", {"uid-a"}) is key


def test_surroundings_on_a_node_have_the_scale_of_the_cluster() -> None:
    requests = requests_on(ledger_with())
    around = surroundings_on_node(valid(requests, annotated()))
    assert around is not None
    assert (around.scale.best_length, around.scale.largest_socket) == (2, 4)


def test_request_is_equal_after_a_change_of_an_unrelated_profile() -> None:
    now = count(0, 100)
    ledger = Ledger(clock=lambda: float(next(now)))
    requests = requests_on(ledger)

    def known(other: int, own: int = 30) -> PlacementRequest:
        facts = (
            learnt_profile("bert", beside("default/noisy", own)),
            learnt_profile("other", beside("default/noisy", other), beside("default/x", 40)),
        )
        ledger.interference.replace(map(parse_workload, facts))
        return valid(requests, annotated(profile="bert"))

    first = known(20)
    assert known(21) == first
    assert hash(known(21)) == hash(first)
    assert known(20, own=32) != first
