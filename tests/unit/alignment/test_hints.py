import pytest

from gputopo.alignment.hints import amount_hints
from gputopo.alignment.model import AlignmentError, Hints, NodeAmounts


def shown(hints: Hints) -> dict[str, bool]:
    return {f"{hint.mask:b}": hint.preferred for hint in hints or ()}


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
