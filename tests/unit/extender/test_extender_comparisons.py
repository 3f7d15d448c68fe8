"""Comparisons of nodes between filter and bind use a bounded amount of memory."""

from gputopo_extender.verbs.comparisons import NodeComparisons
from gputopo_scheduling.comparison import NodeComparison


def of(*nodes: str) -> NodeComparison:
    return NodeComparison(dict.fromkeys(nodes, 0), {0: len(nodes)}, {})


def test_comparison_is_returned_once() -> None:
    kept = NodeComparisons()
    kept.put("uid-a", of("n1"))
    assert kept.pop("uid-a") == of("n1")
    assert kept.pop("uid-a") is None


def test_newest_filter_of_a_pod_replaces_the_former() -> None:
    kept = NodeComparisons()
    kept.put("uid-a", of("n1"))
    kept.put("uid-a", of("n2", "n3"))
    assert kept.pop("uid-a") == of("n2", "n3")


def test_oldest_comparisons_are_dropped_above_the_limit_of_nodes() -> None:
    kept = NodeComparisons(most_nodes=3)
    kept.put("uid-a", of("n1", "n2"))
    kept.put("uid-b", of("n1"))
    kept.put("uid-c", of("n1"))
    assert kept.pop("uid-a") is None
    assert kept.pop("uid-b") is not None
    assert kept.pop("uid-c") is not None


def test_taken_comparisons_leave_space_for_others() -> None:
    kept = NodeComparisons(most_nodes=2)
    for number in range(10):
        kept.put(f"uid-{number}", of("n1", "n2"))
        assert kept.pop(f"uid-{number}") is not None
    kept.put("uid-a", of("n1"))
    kept.put("uid-b", of("n2"))
    assert kept.pop("uid-a") is not None


def test_one_comparison_is_kept_however_many_nodes_it_has() -> None:
    kept = NodeComparisons(most_nodes=2)
    kept.put("uid-a", of("n1", "n2", "n3"))
    assert kept.pop("uid-a") is not None


def test_large_comparison_drops_the_others_and_can_be_replaced() -> None:
    kept = NodeComparisons(most_nodes=2)
    kept.put("uid-a", of("n1"))
    kept.put("uid-b", of("n1", "n2", "n3"))
    kept.put("uid-b", of("n4", "n5", "n6"))
    assert "uid-a" not in kept
    assert kept.pop("uid-b") == of("n4", "n5", "n6")
    kept.put("uid-c", of("n1"))
    kept.put("uid-d", of("n2"))
    assert kept.pop("uid-c") is not None
