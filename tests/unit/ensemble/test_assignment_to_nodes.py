"""Assignment of members to nodes (algorithm 2)."""

import random
from collections import Counter

import pytest

from gputopo.ensemble import assignment
from gputopo.ensemble.assignment import MAX_ORDERS, assign, node_borders
from gputopo.ensemble.packing import fits
from gputopo.ensemble.rates import EnsembleError
from support.ensembles import least_borders, nodes, used


def assigned(
    sizes: dict[str, int], *free: int, one_node: bool = False
) -> dict[str, dict[str, int]] | None:
    found = assign(sizes, nodes(*free), one_node=one_node)
    if found is None:
        return None
    return {each.member: {node.name: node.gpus for node in each.nodes} for each in found}


def test_members_that_fill_nodes_get_whole_nodes() -> None:
    found = assigned({"a": 1, "b": 8, "c": 4}, 4, 4, 4, 4)
    assert found == {"a": {"n3": 1}, "b": {"n0": 4, "n1": 4}, "c": {"n2": 4}}


def test_remainders_that_fill_a_node_share_it() -> None:
    found = assigned({"a": 5, "b": 1, "c": 7, "d": 2}, 4, 4, 4, 4)
    assert found is not None
    assert [len(found[name]) for name in "abcd"] == [2, 1, 2, 1]
    assert found["a"] == {"n0": 4, "n1": 1}
    assert found["c"] == {"n1": 3, "n2": 4}


def test_equal_remainders_are_no_pair() -> None:
    """The paper's text pairs them; 1 and 1 of 4 GPUs would share a node with two idle GPUs."""
    found = assigned({"a": 1, "b": 1, "c": 3, "d": 3}, 4, 4)
    assert found is not None
    assert found["a"] == found["c"] | {"n0": 1}
    assert found["b"] == found["d"] | {"n1": 1}


def test_two_members_with_half_a_node_are_a_pair() -> None:
    assert assigned({"a": 2, "b": 1, "c": 2}, 4, 4) == {
        "a": {"n0": 2},
        "b": {"n1": 1},
        "c": {"n0": 2},
    }


def test_nodes_can_differ() -> None:
    assert assigned({"a": 8, "b": 4, "c": 2}, 4, 8, 2) == {
        "a": {"n1": 8},
        "b": {"n0": 4},
        "c": {"n2": 2},
    }


def test_pair_waits_for_nodes_that_it_fills() -> None:
    found = assigned({"a": 5, "b": 7}, 4, 4, 3, 1)
    assert found is not None
    assert sum(map(len, found.values())) == 4


def test_member_on_several_nodes_takes_the_largest_first() -> None:
    assert assigned({"a": 6}, 2, 3, 5) == {"a": {"n2": 5, "n0": 1}}


def test_one_pod_stays_on_one_node() -> None:
    assert assigned({"a": 4, "b": 3}, 4, 4, one_node=True) == {"a": {"n0": 4}, "b": {"n1": 3}}
    assert assigned({"a": 8}, 4, 4, one_node=True) is None
    assert assigned({"a": 3, "b": 3, "c": 2}, 4, 4, one_node=True) is None


def test_too_few_gpus_or_no_nodes() -> None:
    assert assigned({"a": 3, "b": 6}, 4, 4) is None
    assert assigned({"a": 1}) is None
    assert assigned({}, 4) == {}


def test_whole_nodes_are_given_up_if_the_others_would_not_fit() -> None:
    # Best-fit decreasing fits 4, 3, 3 on 6 and 4; a pair of 3 and 3 fills the node of 6.
    assert assigned({"a": 3, "b": 3, "c": 4}, 6, 4, one_node=True) is not None


def test_member_without_gpus_is_rejected() -> None:
    with pytest.raises(EnsembleError, match=r"sizes: .*at least one GPU"):
        assign({"a": 0}, nodes(4), one_node=False)


@pytest.mark.parametrize("one_node", [False, True])
def test_score_is_the_best_of_all_assignments(one_node: bool) -> None:  # noqa: FBT001 - a parameter
    source = random.Random(11)  # noqa: S311 - repeatable
    compared = Counter[int]()
    for _ in range(250):
        free = [source.choice((2, 3, 4)) for _ in range(source.randint(2, 3))]
        if source.random() < 0.5:
            free = [4] * len(free)
        sizes: list[int] = []
        while len(sizes) < 5 and (left := sum(free) - sum(sizes)) and source.random() < 0.9:
            sizes.append(source.randint(1, min(left, max(free) if one_node else 9)))
        members = {f"m{number}": size for number, size in enumerate(sizes)}
        found = assign(members, nodes(*free), one_node=one_node)
        best = least_borders(tuple(sizes), free, one_node=one_node)
        assert (found is None) == (best is None)
        if found is not None and best is not None:
            assert all(used(found).get(node.name, 0) <= node.gpus for node in nodes(*free))
            assert [each.gpus for each in found] == sizes
            compared[node_borders(found) - best] += 1
    assert set(compared) == {0}


def test_whatever_fits_is_assigned() -> None:
    source = random.Random(12)  # noqa: S311 - repeatable
    for _ in range(400):
        free = [source.randint(0, 8) for _ in range(source.randint(1, 6))]
        sizes = [source.randint(1, 6) for _ in range(source.randint(1, 8))]
        one_node = source.random() < 0.7
        if fits(sizes, free, one_node=one_node):
            members = {f"m{number}": size for number, size in enumerate(sizes)}
            assert assign(members, nodes(*free), one_node=one_node) is not None


def test_orders_are_different_and_limited() -> None:
    found = list(assignment._orders([2, 1, 1]))
    assert found == [([2, 1, 1], 0), ([1, 2, 1], 0), ([1, 1, 2], 1)]
    many = [tuple(order) for order, _ in assignment._orders([7, 6, 5, 4, 3, 2, 1])]
    assert len(set(many)) == len(many) == MAX_ORDERS


def test_order_begins_like_the_one_before_it() -> None:
    before: list[int] = []
    for order, same in assignment._orders([5, 4, 3, 3, 2, 1]):
        assert order[:same] == before[:same]
        before = order
