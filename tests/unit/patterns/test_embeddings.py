"""The best embedding of a pattern into a GPU set."""

from collections.abc import Callable

import pytest

from gputopo.catalogue import named
from gputopo.patterns.embedding import EmbeddingError, embeddings, is_symmetric
from gputopo.patterns.model import (
    Pattern,
    PatternEdge,
    all_to_all,
    chain,
    custom,
    ring,
    ring_tree,
    star,
    tree,
)
from gputopo.topology.model import GpuMask, NodeTopology
from support.builders.topologies import DOUBLE, SINGLE, gpus, node
from support.mapa_oracle import row_of

KINDS = (ring, tree, ring_tree, chain, star, all_to_all)


def dense(size: int) -> Pattern:
    """Return a Custom pattern with different weights on nearly all pairs."""
    return custom(size, [PatternEdge(a, b, 1 + a + 3 * b) for b in range(size) for a in range(b)])


def found(topology: NodeTopology, pattern: Pattern, members: GpuMask) -> tuple[list[int], int]:
    table = embeddings(topology, pattern)
    row = row_of(table, members)
    assert table.bound_mb_per_s[row] == table.aggregate_mb_per_s[row]
    return table.orders[row].tolist(), int(table.aggregate_mb_per_s[row])


def test_a_single_gpu_has_no_bandwidth() -> None:
    for pattern in (*(kind(1) for kind in KINDS),):
        assert found(node(3, 5), pattern, gpus(5)) == ([5], 0)


def test_two_gpus_of_a_ring_use_their_link_twice() -> None:
    topology = node(3, 5, links={(3, 5): DOUBLE})
    assert found(topology, ring(2), gpus(3, 5)) == ([3, 5], 100_000)


@pytest.mark.parametrize("kind", [tree, chain, star, all_to_all])
def test_two_gpus_of_any_other_pattern_use_it_once(kind: Callable[[int], Pattern]) -> None:
    assert found(node(0, 1), kind(2), gpus(0, 1)) == ([0, 1], 12_000)


def test_a_ring_uses_the_fast_links() -> None:
    topology = node(0, 1, 2, 3, links=dict.fromkeys([(0, 2), (1, 2), (1, 3), (0, 3)], DOUBLE))
    assert found(topology, ring(4), topology.mask) == ([0, 2, 1, 3], 200_000)


def test_a_ring_of_4_takes_the_lowest_of_its_best_orders() -> None:
    # The example in the docstring of gputopo.patterns.exact.
    links = {(0, 1): DOUBLE, (2, 3): DOUBLE, (1, 2): SINGLE, (0, 3): SINGLE}
    topology = node(0, 1, 2, 3, links=links)
    assert found(topology, ring(4), topology.mask) == ([0, 1, 2, 3], 150_000)


def test_a_chain_may_start_anywhere() -> None:
    topology = node(0, 1, 2, 3, links=dict.fromkeys([(1, 2), (0, 2), (0, 3)], DOUBLE))
    assert found(topology, chain(4), topology.mask) == ([1, 2, 0, 3], 150_000)


def test_the_hub_of_a_star_has_the_fast_links() -> None:
    topology = node(0, 1, 2, 3, links=dict.fromkeys([(0, 2), (1, 2), (2, 3)], DOUBLE))
    assert found(topology, star(4), topology.mask) == ([2, 0, 1, 3], 150_000)


def test_a_tree_has_its_root_on_the_gpu_with_the_fast_links() -> None:
    links = dict.fromkeys([(4, 1), (1, 4), (4, 2), (2, 4), (0, 1), (1, 3)], DOUBLE)
    topology = node(0, 1, 2, 3, 4, links=links)
    # 4 over 1 and 2, 1 over 0 and 3.
    assert found(topology, tree(5), topology.mask) == ([4, 1, 2, 0, 3], 200_000)


@pytest.mark.parametrize("kind", [*KINDS, dense])
def test_equal_links_give_the_lowest_order(kind: Callable[[int], Pattern]) -> None:
    topology = named("dgx-a100")
    assert found(topology, kind(8), topology.mask)[0] == list(range(8))


def test_the_table_has_every_set_of_the_size_lowest_first() -> None:
    table = embeddings(node(0, 2, 60), ring(2))
    assert table.sets.tolist() == [gpus(0, 2), gpus(0, 60), gpus(2, 60)]


def test_a_heavy_edge_takes_the_fast_link() -> None:
    topology = node(0, 1, 2, links={(1, 2): DOUBLE, (0, 2): SINGLE})
    uneven = custom(3, [PatternEdge(0, 1, 9), PatternEdge(1, 2, 1)])
    assert found(topology, uneven, topology.mask) == ([1, 2, 0], 9 * 50_000 + 25_000)


def test_ranks_without_edges_get_the_remaining_gpus() -> None:
    topology = node(0, 1, 2, 3, links={(1, 3): DOUBLE})
    pair = custom(4, [PatternEdge(1, 2)])
    assert found(topology, pair, topology.mask) == ([0, 1, 3, 2], 50_000)


@pytest.mark.parametrize("pattern", [ring(3), custom(3, [PatternEdge(0, 2)]), all_to_all(4)])
def test_a_pattern_larger_than_the_node_has_an_empty_table(pattern: Pattern) -> None:
    table = embeddings(node(0, 1), pattern)
    assert table.sets.shape == (0,)
    assert table.orders.shape == (0, pattern.size)


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("kind", [*KINDS, dense])
def test_on_eight_gpus_every_pattern_is_exact(kind: Callable[[int], Pattern], size: int) -> None:
    if kind is dense and size == 1:
        return  # no edge
    table = embeddings(named("dgx1-v100"), kind(size))
    assert (table.aggregate_mb_per_s == table.bound_mb_per_s).all()


@pytest.mark.parametrize("kind", [ring, chain, star, tree, all_to_all])
@pytest.mark.parametrize("size", [9, 15, 16])
def test_on_sixteen_gpus_sparse_patterns_are_exact(
    kind: Callable[[int], Pattern], size: int
) -> None:
    table = embeddings(named("torus-2d-16"), kind(size))
    assert (table.aggregate_mb_per_s == table.bound_mb_per_s).all()


def test_an_inexact_search_has_an_upper_bound() -> None:
    table = embeddings(named("cubemesh-16"), ring_tree(14))
    assert (table.aggregate_mb_per_s <= table.bound_mb_per_s).all()
    assert not (table.aggregate_mb_per_s == table.bound_mb_per_s).all()


def test_symmetric_patterns_are_found_by_their_edges() -> None:
    symmetric = custom(3, [PatternEdge(0, 1, 5), PatternEdge(0, 2, 5), PatternEdge(1, 2, 5)])
    for pattern in (ring(1), ring(2), ring(3), chain(2), all_to_all(9), symmetric):
        assert is_symmetric(pattern)
    for pattern in (ring(4), chain(3), dense(3)):
        assert not is_symmetric(pattern)


def test_tables_cannot_be_written() -> None:
    table = embeddings(node(0, 1), ring(2))
    with pytest.raises(ValueError, match="read-only"):
        table.aggregate_mb_per_s[0] = 1


def test_a_table_reports_its_memory() -> None:
    assert embeddings(node(0, 1, 2), ring(2)).nbytes == 3 * (8 + 2 + 8 + 8)


def test_a_node_with_more_than_16_gpus_is_rejected() -> None:
    with pytest.raises(EmbeddingError, match="the node has 17 GPUs, at most 16 are supported"):
        embeddings(node(*range(17)), ring(2))


def test_too_large_weights_are_rejected() -> None:
    heavy = custom(2, [PatternEdge(0, 1, 10**12)])
    with pytest.raises(EmbeddingError, match="12000000000000000 MB/s is more than"):
        embeddings(node(0, 1), heavy)
