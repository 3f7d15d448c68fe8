import pytest

from gputopo.alignment.hints import MemoryGroup, amount_hints, memory_hints
from gputopo.alignment.model import AlignmentError, Hints, NodeAmounts, NumaHint, NumaMask


def shown(hints: Hints) -> dict[str, bool]:
    return {f"{hint.mask:b}": hint.preferred for hint in hints or ()}


def groups(*nodes: int, used: bool = False) -> dict[int, MemoryGroup]:
    return {node: MemoryGroup(frozenset({node}), used) for node in nodes}


def test_a_set_of_nodes_is_preferred_by_the_total_and_a_hint_by_what_is_free() -> None:
    gpus = NodeAmounts({0: 4, 1: 4}, {0: 1, 1: 4})
    assert shown(amount_hints(1, gpus)) == {"1": True, "10": True, "11": False}
    assert shown(amount_hints(3, gpus)) == {"10": True, "11": False}
    assert shown(amount_hints(5, gpus)) == {"11": True}
    assert amount_hints(6, gpus) == []


def test_a_request_for_more_nodes_than_the_hardware_needs_is_not_preferred() -> None:
    # One node has 4 GPUs, so 4 GPUs on two nodes are never preferred.
    assert shown(amount_hints(4, NodeAmounts({0: 4, 1: 4}, {0: 2, 1: 2}))) == {"11": False}


def test_nodes_without_a_free_amount_have_none() -> None:
    assert shown(amount_hints(1, NodeAmounts({0: 1, 2: 1}, {2: 1}))) == {"100": True, "101": False}


@pytest.mark.parametrize("free", [{0: 5}, {0: -1}, {7: 1}])
def test_more_free_than_total_is_rejected_with_the_node(free: dict[int, int]) -> None:
    with pytest.raises(AlignmentError, match=rf"free\[{min(free)}\]: .* is not in 0\.\."):
        NodeAmounts({0: 4}, free)


def test_more_nodes_than_can_be_computed_are_rejected() -> None:
    many = dict.fromkeys(range(17), 1)
    with pytest.raises(AlignmentError, match="17 NUMA nodes are more than 16"):
        amount_hints(1, NodeAmounts(many, many))


def test_memory_that_fits_nowhere_gives_no_preference() -> None:
    # kubelet's memory manager then rejects the pod itself.
    assert memory_hints(9, NodeAmounts({0: 4, 1: 4}, {0: 4, 1: 4}), groups(0, 1)) is None
    assert memory_hints(8, NodeAmounts({0: 4, 1: 4}, {0: 4, 1: 3}), groups(0, 1)) is None


def test_memory_of_a_node_in_a_group_is_not_given_alone() -> None:
    pair = MemoryGroup(frozenset({0, 1}), used=True)
    amounts = NodeAmounts({0: 4, 1: 4, 2: 4}, {0: 4, 1: 4, 2: 4})
    found = memory_hints(2, amounts, {0: pair, 1: pair, **groups(2)})
    assert shown(found) == {"100": True, "11": False}


def test_memory_of_a_node_that_is_used_alone_joins_no_group() -> None:
    amounts = NodeAmounts({0: 4, 1: 4, 2: 4}, {0: 2, 1: 4, 2: 4})
    found = memory_hints(3, amounts, {**groups(0, used=True), **groups(1, 2)})
    assert shown(found) == {"10": True, "100": True, "110": False}


def test_a_preferred_size_counts_nodes_that_other_groups_use() -> None:
    # Two nodes could have 6, but both sets with node 0 are excluded by its use alone.
    amounts = NodeAmounts({0: 4, 1: 4, 2: 1}, {0: 4, 1: 4, 2: 1})
    found = memory_hints(5, amounts, {**groups(0), **groups(1), **groups(2)})
    assert found is not None
    assert NumaHint(NumaMask(0b011), preferred=True) in found
    assert NumaHint(NumaMask(0b111), preferred=False) in found
