"""The best nodes of an evaluation have the highest score and are most in use."""

import dataclasses
from collections.abc import Mapping

from gputopo.catalogue import named
from gputopo.topology.model import GpuMask
from gputopo_cluster.usage import NodeState
from gputopo_scheduling.best_nodes import best_nodes
from gputopo_scheduling.evaluation import Evaluation, Misfit, MisfitKind, evaluation, rejected
from gputopo_scheduling.node_fits import evaluate_states
from support.builders.requests import request_of
from support.builders.topologies import node

FREE = (0b11111111, 0b00000011, 0b00001111, 0b00000000)


def whole(kind: str = "dgx1-v100") -> NodeState:
    topology = named(kind, node="any")
    return NodeState(topology, topology.mask, topology.mask, 0, None)


def found(nodes: int) -> Evaluation:
    """Return what a pod of one GPU finds on nodes that are free to different degrees."""
    request = request_of(1)
    idle = whole()
    states = [dataclasses.replace(idle, free=GpuMask(free)) for free in FREE]
    names = [f"n{number}" for number in range(nodes)]
    keys = [states[number % len(states)] for number in range(nodes)]
    return evaluation(names, keys, evaluate_states(states, request))


def of_one_score(states: Mapping[str, NodeState]) -> Evaluation:
    """Return what a pod of one GPU finds where all nodes offer the same."""
    known = evaluate_states(states.values(), request_of(1))
    same = dict.fromkeys(known, known[next(iter(states.values()))])
    return evaluation(list(states), list(states.values()), same)


def test_best_nodes_have_the_highest_score_and_are_most_in_use() -> None:
    many = found(400)
    scores = many.scores(sensitive=False)
    offered = best_nodes(many, 1, {}, sensitive=False)
    assert offered == [f"n{number}" for number in range(1, 400, 4)], "two of their GPUs are free"
    assert {scores[name] for name in offered} == {max(scores.values())}


def test_of_nodes_with_one_score_the_fullest_is_offered() -> None:
    fuller = dataclasses.replace(whole(), free=GpuMask(0b11110000))
    states = {"a": whole(), "b": fuller, "c": whole()}
    assert best_nodes(of_one_score(states), 1, {}, sensitive=True) == ["b"]


def test_gpus_in_use_are_counted_as_by_kube_scheduler() -> None:
    small, large = whole(), whole("dgx-2")
    last_of_8 = dataclasses.replace(small, free=GpuMask(1))
    last_of_16 = dataclasses.replace(large, free=GpuMask(1))
    both = of_one_score({"small": last_of_8, "large": last_of_16})
    assert best_nodes(both, 1, {}, sensitive=True) == ["small", "large"], "both would be full"

    unhealthy = dataclasses.replace(small, healthy=GpuMask(0b11), free=GpuMask(0b11))
    used = dataclasses.replace(small, free=GpuMask(0b11))
    assert best_nodes(
        of_one_score({"unhealthy": unhealthy, "used": used}), 1, {}, sensitive=True
    ) == ["used"]
    taken_by_others = dataclasses.replace(small, unknown=3)
    unlike = of_one_score({"others": taken_by_others, "idle": whole()})
    assert best_nodes(unlike, 1, {}, sensitive=True) == ["others"]


def test_pods_in_flight_to_a_node_count_as_in_use_there() -> None:
    half = dataclasses.replace(whole(), free=GpuMask(0b1111))
    nodes = of_one_score({"a": whole(), "b": whole(), "c": half})
    assert best_nodes(nodes, 1, {"b": 3}, sensitive=True) == ["c"], "half of it is in use already"
    assert best_nodes(nodes, 1, {"b": 4}, sensitive=True) == ["b"]
    assert best_nodes(nodes, 1, {"b": 5, "gone": 7}, sensitive=True) == ["b"]


def test_pods_in_flight_do_not_make_a_worse_node_better() -> None:
    states = {"linked": whole(), "plain": whole("pcie-8gpu")}
    request = request_of(3)
    known = evaluate_states(states.values(), request)
    nodes = evaluation(list(states), list(states.values()), known)
    assert best_nodes(nodes, 3, {"plain": 4}, sensitive=True) == ["linked"]


def test_node_that_pods_in_flight_have_filled_is_not_chosen() -> None:
    half = dataclasses.replace(whole(), free=GpuMask(0b1111))
    nodes = of_one_score({"a": whole(), "b": half})
    assert best_nodes(nodes, 1, {"b": 3}, sensitive=True) == ["b"]
    assert best_nodes(nodes, 1, {"b": 4}, sensitive=True) == ["a"]
    assert best_nodes(nodes, 3, {"b": 2}, sensitive=True) == ["a"]
    assert best_nodes(nodes, 1, {"a": 8, "b": 4}, sensitive=True) == []
    assert best_nodes(nodes, 1, {"b": 4}, sensitive=True, shares=True) == ["b"], (
        "pods may share a GPU"
    )


def test_node_without_a_topology_is_not_chosen_for_its_pods_in_flight() -> None:
    keys = [whole(), None]
    nodes = evaluation(["a", "b"], keys, evaluate_states(keys, request_of(1)))
    assert best_nodes(nodes, 1, {"b": 4}, sensitive=True) == ["a"]


def test_worse_node_is_best_if_the_better_ones_are_filled_or_left_out() -> None:
    states = {"linked": whole(), "plain": whole("pcie-8gpu")}
    known = evaluate_states(states.values(), request_of(3))
    nodes = evaluation(list(states), list(states.values()), known)
    assert best_nodes(nodes, 3, {"linked": 6}, sensitive=True) == ["plain"]
    assert best_nodes(nodes, 3, {}, sensitive=True, without={"linked", "gone"}) == ["plain"]


def test_where_no_node_fits_none_is_offered() -> None:
    none = rejected(["n0", "n1"], Misfit(MisfitKind.REJECTED, "it cannot be read"))
    assert best_nodes(none, 1, {"n0": 1}, sensitive=True) == none.fitting() == []


def test_node_of_a_binding_in_flight_is_the_best() -> None:
    (candidate,) = found(1).results.values()
    elsewhere = Misfit(MisfitKind.RESERVED_ELSEWHERE, "it is being bound to another node")
    in_flight = evaluation(
        ["n0", "n1", "n2"], [False, True, False], {True: candidate, False: elsewhere}
    )
    assert best_nodes(in_flight, 1, {}, sensitive=True) == in_flight.fitting() == ["n1"]
    assert best_nodes(in_flight, 1, {"n1": 7}, sensitive=True) == ["n1"], "its state is unknown"


def test_node_with_too_many_gpus_for_the_tables_is_too_small() -> None:
    large = node(*range(17))
    state = NodeState(large, large.mask, large.mask, 0, None)
    (misfit,) = evaluate_states([state], request_of(1)).values()
    assert misfit == Misfit(MisfitKind.TOO_SMALL, "the node has 17 GPUs, at most 16 supported")
