"""The chosen node is compared with the other nodes of the evaluation."""

import dataclasses

import pytest

from gputopo.api.replay import RecordedNodes
from gputopo.catalogue import named
from gputopo.topology.model import GpuMask
from gputopo_cluster.usage import NodeState
from gputopo_scheduling.comparison import compare
from gputopo_scheduling.cpu_shares import ranks_by_share
from gputopo_scheduling.evaluation import Evaluation, evaluation
from gputopo_scheduling.node_fits import evaluate_states
from support.builders.requests import request_of

DGX = named("dgx1-v100", node="any")
IDLE = NodeState(DGX, DGX.mask, DGX.mask, 0, None)
PCIE = named("pcie-8gpu", node="any")
WEAK = NodeState(PCIE, PCIE.mask, PCIE.mask, 0, None)
FULL = dataclasses.replace(IDLE, free=GpuMask(0))


def evaluated(**states: NodeState | None) -> Evaluation:
    results = evaluate_states(states.values(), request_of(2))
    return evaluation([*states], [*states.values()], results)


CLUSTER = evaluated(a=IDLE, b=IDLE, weak=WEAK, c=FULL, d=None)


def test_chosen_node_is_compared_with_better_equal_and_unfit_nodes() -> None:
    compared = compare(CLUSTER, ["a", "b", "weak"], {}, sensitive=True)
    misfits = {"busy": 1, "no_topology": 1}
    assert compared.of_node("a") == RecordedNodes(
        compared=5, fitted=3, better=0, equal=1, score=10, misfits=misfits
    )
    assert compared.of_node("weak") == RecordedNodes(
        compared=5, fitted=3, better=2, equal=0, score=9, misfits=misfits
    )


def test_only_one_node_was_offered_and_the_others_are_still_counted() -> None:
    compared = compare(CLUSTER, ["b"], {}, sensitive=True)
    assert compared.ranks == {"b": 0}
    assert compared.of_node("a") is None
    found = compared.of_node("b")
    assert found is not None
    assert (found.fitted, found.equal) == (3, 1)


@pytest.mark.parametrize(("node", "better", "equal"), [("a", 0, 0), ("b", 1, 0), ("weak", 2, 0)])
def test_nodes_of_a_sized_pod_are_compared_by_its_share_too(
    node: str, better: int, equal: int
) -> None:
    ranks = ranks_by_share(CLUSTER, {"a": 8000, "b": 4000}, sensitive=True)
    found = compare(CLUSTER, ["a", "b", "weak"], ranks, sensitive=True).of_node(node)
    assert found is not None
    assert (found.better, found.equal) == (better, equal)


def test_nodes_without_a_rank_count_as_worse() -> None:
    found = compare(CLUSTER, ["a"], {"a": 0, "b": 1}, sensitive=True).of_node("a")
    assert found is not None
    assert (found.fitted, found.better, found.equal) == (3, 0, 0)
