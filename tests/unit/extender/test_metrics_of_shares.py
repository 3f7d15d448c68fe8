"""The extender counts the pods that got a share, by how they got it."""

import pytest

from gputopo_extender.fencing.binding_writer import BindOutcome, BindResult
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.metrics import Metrics
from support.builders.live import gpu_user, installed
from support.shares import decision_of, share, sharing_cluster, sharing_pod


def alone() -> Decision:
    return decision_of(sharing_pod("new"), sharing_cluster())


def predicted() -> Decision:
    return decision_of(sharing_pod("new"), sharing_cluster([sharing_pod("first", share(0))]))


def tried() -> Decision:
    pods = [sharing_pod("first", share(0), profile="unknown"), gpu_user("whole", "n1", 1, 7)]
    trying = installed("--sharing-unknown-pairs=Try")
    return decision_of(sharing_pod("new"), sharing_cluster(pods, deployments=[trying]))


@pytest.mark.parametrize("decision", [alone, predicted, tried])
def test_a_bound_pod_is_counted_by_the_kind_of_its_share(decision: object) -> None:
    metrics = Metrics(Ledger(), [])
    found = {"alone": alone, "predicted": predicted, "tried": tried}
    [kind] = [name for name, each in found.items() if each is decision]
    metrics.bind_ended(BindResult(BindOutcome.BOUND, decision=found[kind]()))
    name = "gputopo_extender_placed_shares_total"
    shown = {each: metrics.registry.get_sample_value(name, {"kind": each}) for each in found}
    assert shown == {**dict.fromkeys(found, 0), kind: 1}
