"""Edges of the patterns, and rejection of invalid ones."""

import pytest

from gputopo.patterns.model import (
    Pattern,
    PatternEdge,
    PatternError,
    PatternKind,
    all_to_all,
    build,
    custom,
    ring,
)


def pairs(pattern: Pattern) -> list[tuple[int, int]]:
    return [(edge.a, edge.b) for edge in pattern.edges]


def test_a_ring_of_one_has_no_edge() -> None:
    assert ring(1).edges == ()


def test_a_ring_of_two_uses_its_edge_once_each_way() -> None:
    assert pairs(ring(2)) == [(0, 1), (0, 1)]


def test_a_ring_of_four_closes() -> None:
    assert pairs(ring(4)) == [(0, 1), (1, 2), (2, 3), (0, 3)]


def test_all_to_all_has_each_pair_once() -> None:
    assert pairs(all_to_all(3)) == [(0, 1), (0, 2), (1, 2)]
    assert all_to_all(1).edges == ()


def test_custom_patterns_with_equal_edges_are_equal_in_any_notation() -> None:
    one = custom(3, [PatternEdge(2, 0, 3), PatternEdge(0, 1)])
    other = custom(3, [PatternEdge(0, 1), PatternEdge(0, 2), PatternEdge(2, 0, 2)])
    assert one == other
    assert hash(one) == hash(other)
    assert one.edges == (PatternEdge(0, 1, 1), PatternEdge(0, 2, 3))


@pytest.mark.parametrize("size", [0, -1, 17, 99])
@pytest.mark.parametrize("kind", list(PatternKind))
def test_a_size_out_of_range_is_rejected(kind: PatternKind, size: int) -> None:
    edges = [PatternEdge(0, 1)] if kind is PatternKind.CUSTOM else []
    with pytest.raises(PatternError, match=rf"gpus: {size} is not in 1\.\.16"):
        build(kind, size, edges)


def test_an_unknown_rank_is_rejected_with_field_and_value() -> None:
    with pytest.raises(PatternError, match=r"edges\[1\]\.to: 3 is not a rank of 3 GPUs \(0\.\.2\)"):
        build(PatternKind.CUSTOM, 3, [PatternEdge(0, 1), PatternEdge(0, 3)])
    with pytest.raises(PatternError, match=r"edges\[0\]\.from: -1 is not a rank"):
        custom(3, [PatternEdge(-1, 0)])


def test_an_edge_from_a_rank_to_itself_is_rejected() -> None:
    with pytest.raises(PatternError, match=r"edges\[0\]: rank 2 is connected with itself"):
        build(PatternKind.CUSTOM, 3, [PatternEdge(2, 2)])


def test_a_weight_below_one_is_rejected() -> None:
    with pytest.raises(PatternError, match=r"edges\[0\]\.weight: 0 is below 1"):
        custom(2, [PatternEdge(0, 1, 0)])


def test_a_custom_pattern_without_edges_is_rejected() -> None:
    with pytest.raises(PatternError, match="edges: a Custom pattern needs at least one edge"):
        build(PatternKind.CUSTOM, 2)


@pytest.mark.parametrize("kind", [PatternKind.RING, PatternKind.ALL_TO_ALL])
def test_edges_with_another_pattern_are_rejected(kind: PatternKind) -> None:
    with pytest.raises(PatternError, match=f"allowed with Custom only, not with {kind}"):
        build(kind, 2, [PatternEdge(0, 1)])


def test_build_returns_the_pattern_of_the_kind() -> None:
    assert build(PatternKind.RING, 3) == ring(3)
    assert build(PatternKind.ALL_TO_ALL, 3) == all_to_all(3)
    assert build(PatternKind.CUSTOM, 3, [PatternEdge(1, 0, 7)]) == custom(3, [PatternEdge(0, 1, 7)])
