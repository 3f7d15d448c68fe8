"""For a pod that gputopo sizes, nodes with more CPUs for it are better if their GPUs are equal."""

import dataclasses
from typing import Any

import pytest

from benchmarks.verbs import verbs_on
from gputopo.api.names import RESOURCES_MAX_ANNOTATION, RESOURCES_MODE_ANNOTATION
from gputopo.api.v1alpha1 import SizedCapacity
from gputopo.catalogue import named
from gputopo.topology.model import GpuMask
from gputopo_cluster.topologies import GpuNode, parse_gpu_node
from gputopo_cluster.usage import NodeState
from gputopo_extender.protocol import ExtenderArgs
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.handlers import Verbs
from gputopo_extender.verbs.metrics import Metrics
from gputopo_kube.pods import PodView
from gputopo_scheduling.best_nodes import best_nodes
from gputopo_scheduling.cpu_shares import (
    best_by_share,
    cpu_shares,
    preferred,
    ranks_by_share,
    scores,
)
from gputopo_scheduling.evaluation import Evaluation, Misfit, MisfitKind, evaluation
from gputopo_scheduling.node_fits import evaluate_states
from support.builders.objects import Document, pod, topology_object
from support.builders.requests import pod_view, request_of

DGX = named("dgx1-v100", node="any")
IDLE = NodeState(DGX, DGX.mask, DGX.mask, 0, None)
HALF = dataclasses.replace(IDLE, free=GpuMask(0b1111))
CAPACITIES = {
    "large": SizedCapacity(milli_cpu=64_000, memory=0, gpus=8),
    "small": SizedCapacity(milli_cpu=16_000, memory=0, gpus=8),
    "restarting": SizedCapacity(milli_cpu=16_000, memory=0, gpus=0),
}


def view(mode: str = "Auto", **annotations: str) -> PodView:
    document = pod("one", 2)
    document["metadata"]["annotations"] = {RESOURCES_MODE_ANNOTATION: mode, **annotations}
    return pod_view(document)


def shares(tuned: PodView) -> dict[str, int]:
    return dict(cpu_shares(tuned, 2, [*CAPACITIES, "older agent"], CAPACITIES.get))


def evaluated(**states: NodeState) -> Evaluation:
    results = evaluate_states(states.values(), request_of(2))
    return evaluation([*states], [*states.values()], results)


@pytest.mark.parametrize("mode", ["Auto", "Proportional"])
def test_share_of_a_sized_pod_is_known_where_the_agent_reports_it(mode: str) -> None:
    assert shares(view(mode)) == {"large": 16_000, "small": 4000}


def test_maximum_of_the_pod_limits_the_shares() -> None:
    assert shares(view(**{RESOURCES_MAX_ANNOTATION: "cpu=6"})) == {"large": 6000, "small": 4000}


@pytest.mark.parametrize(
    "tuned", [view("Fixed"), view("Other"), view(**{RESOURCES_MAX_ANNOTATION: "many"})]
)
def test_pod_that_is_not_sized_has_no_shares(tuned: PodView) -> None:
    assert shares(tuned) == {}


def test_node_with_a_larger_share_is_better_among_equal_gpus() -> None:
    found = evaluated(small=IDLE, large=IDLE)
    ranks = ranks_by_share(found, {"large": 16_000, "small": 4000}, sensitive=True)
    assert scores(found, ranks, sensitive=True) == {"large": 10, "small": 9}
    assert best_nodes(preferred(found, ranks), 2, {}, sensitive=True) == ["large"]


def test_share_does_not_outweigh_the_gpus() -> None:
    # An insensitive pod goes to the node that loses less bandwidth.
    found = evaluated(large=IDLE, half=HALF)
    ranks = ranks_by_share(found, {"large": 16_000, "half": 1000}, sensitive=False)
    assert scores(found, ranks, sensitive=False) == found.scores(sensitive=False)
    assert preferred(found, ranks).nodes == ["half"]


def test_nodes_that_do_not_fit_have_no_rank() -> None:
    found = evaluated(large=IDLE, full=dataclasses.replace(IDLE, free=GpuMask(0)))
    ranks = ranks_by_share(found, {"large": 16_000, "full": 90_000}, sensitive=True)
    assert ranks == ranks_by_share(found, {"large": 16_000}, sensitive=True) == {"large": 0}
    assert scores(found, ranks, sensitive=True) == {"large": 10, "full": 0}
    none = Evaluation(["n"], [None], {None: Misfit(MisfitKind.REJECTED, "invalid")})
    assert preferred(none, ranks_by_share(none, {"n": 1}, sensitive=True)).fitting() == []


def test_without_shares_nothing_changes() -> None:
    found = evaluated(a=IDLE, b=HALF)
    ranks = ranks_by_share(found, {}, sensitive=True)
    assert scores(found, ranks, sensitive=True) == found.scores(sensitive=True)
    assert preferred(found, ranks) is found


def test_best_nodes_by_share_are_among_those_with_the_best_gpus() -> None:
    found = evaluated(small=IDLE, large=IDLE, half=HALF)
    unknown = best_by_share(found, view(), 2, CAPACITIES.get, sensitive=False)
    assert unknown == (found, {}), "the share on the best node is not known"
    found = evaluated(small=IDLE, large=IDLE)
    best, ranks = best_by_share(found, view(), 2, CAPACITIES.get, sensitive=False)
    assert (best.nodes, ranks) == (["large"], {"large": 0, "small": 1})
    fixed = best_by_share(found, view("Fixed"), 2, CAPACITIES.get, sensitive=False)
    assert fixed == (found, {})


def topology_with(capacity: object) -> Document:
    document = topology_object("n1", DGX)
    document["status"]["sizedCapacity"] = capacity
    return document


def test_capacity_comes_from_the_gputopology() -> None:
    ledger = Ledger()
    assert ledger.sized_capacity("n1") is None
    ledger.put_topology(parse_gpu_node(topology_with({"milliCPU": 8000, "memory": 1, "gpus": 8})))
    assert ledger.sized_capacity("n1") == SizedCapacity(milli_cpu=8000, memory=1, gpus=8)
    ledger.put_topology(parse_gpu_node({"metadata": {"name": "n1"}, "spec": {"gpus": "none"}}))
    assert ledger.sized_capacity("n1") is None


@pytest.mark.parametrize("capacity", [None, "8 CPUs", {"milliCPU": -1}])
def test_capacity_in_an_unknown_format_is_unknown_and_the_node_stays_usable(capacity: Any) -> None:
    node = parse_gpu_node(topology_with(capacity))
    assert isinstance(node, GpuNode)
    assert node.sized_capacity is None


def test_changed_capacity_does_not_change_the_state_of_a_node() -> None:
    ledger = Ledger()
    ledger.put_topology(parse_gpu_node(topology_with({"milliCPU": 8000, "memory": 1, "gpus": 8})))
    changes, state = ledger.changes(), ledger.states()["n1"]
    ledger.put_topology(parse_gpu_node(topology_with({"milliCPU": 9000, "memory": 1, "gpus": 8})))
    assert ledger.sized_capacity("n1") == SizedCapacity(milli_cpu=9000, memory=1, gpus=8)
    assert ledger.changes() == changes
    assert ledger.states()["n1"] is state


def fleet(nodes: int, large: str) -> tuple[Verbs, list[str]]:
    ledger = Ledger()
    names = [f"n{number}" for number in range(nodes)]
    for name in names:
        document = topology_object(name, DGX)
        milli_cpu = 64_000 if name == large else 16_000
        document["status"]["sizedCapacity"] = {"milliCPU": milli_cpu, "memory": 1, "gpus": 8}
        ledger.put_topology(parse_gpu_node(document))
    return verbs_on(ledger, Metrics(ledger, [])), names


@pytest.mark.parametrize(("mode", "scored"), [("Auto", [9, 10, 9]), ("Fixed", [10, 10, 10])])
async def test_prioritize_prefers_the_larger_share_for_sized_pods(
    mode: str, scored: list[int]
) -> None:
    verbs, names = fleet(3, large="n1")
    document = pod("one", 2, annotations={RESOURCES_MODE_ANNOTATION: mode})
    found = await verbs.prioritize(ExtenderArgs(Pod=document, NodeNames=names))
    assert [each["Score"] for each in found] == scored


async def test_filter_of_many_nodes_returns_one_with_the_larger_share() -> None:
    verbs, names = fleet(101, large="n70")
    document = pod("one", 2, annotations={RESOURCES_MODE_ANNOTATION: "Auto"})
    found = await verbs.filter(ExtenderArgs(Pod=document, NodeNames=names))
    assert found["NodeNames"] == ["n70"]
