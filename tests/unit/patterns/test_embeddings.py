"""The best way to lay a pattern on a GPU set."""

import time
from collections.abc import Iterable

import pytest

from builders import DOUBLE, SINGLE, gpus, node
from gputopo.patterns.embedding import EmbeddingError, embeddings
from gputopo.patterns.graph import Embedding, LinkWeights
from gputopo.patterns.model import PatternEdge, all_to_all, custom, ring
from gputopo.patterns.ring import ring_embeddings
from gputopo.patterns.search import NODE_BUDGET, searched_embeddings
from gputopo.topology.catalogue import named
from gputopo.topology.model import GpuIndex
from oracle import Edges, clique_edges

SIXTEEN = node(*range(16), links={(a, a + 1): DOUBLE for a in range(0, 15, 2)} | {(0, 15): SINGLE})


def found(order: Iterable[int], aggregate_mb_per_s: int) -> Embedding:
    return Embedding(tuple(GpuIndex(index) for index in order), aggregate_mb_per_s)


def test_a_single_gpu_has_no_bandwidth() -> None:
    assert embeddings(node(3, 5), ring(1))[gpus(5)] == found([5], 0)


def test_two_gpus_of_a_ring_use_their_link_twice() -> None:
    assert embeddings(node(3, 5, links={(3, 5): DOUBLE}), ring(2))[gpus(3, 5)] == found(
        [3, 5], 100_000
    )


def test_two_gpus_of_all_to_all_use_their_link_once() -> None:
    assert embeddings(node(0, 1), all_to_all(2))[gpus(0, 1)] == found([0, 1], 12_000)


def test_a_ring_goes_round_the_fast_links() -> None:
    topology = node(0, 1, 2, 3, links=dict.fromkeys([(0, 2), (1, 2), (1, 3), (0, 3)], DOUBLE))
    assert embeddings(topology, ring(4))[gpus(0, 1, 2, 3)] == found([0, 2, 1, 3], 200_000)


def test_equal_links_give_the_lowest_order() -> None:
    members = range(8)
    for pattern in (ring(8), all_to_all(8), custom(8, [PatternEdge(6, 7), PatternEdge(0, 7)])):
        assert embeddings(node(*members), pattern)[gpus(*members)].order == tuple(members)


def test_every_set_of_the_size_is_there_and_no_other() -> None:
    table = embeddings(node(0, 2, 4), ring(2))
    assert set(table) == {gpus(0, 2), gpus(0, 4), gpus(2, 4)}


def test_a_heavy_edge_takes_the_fast_link() -> None:
    topology = node(0, 1, 2, links={(1, 2): DOUBLE, (0, 2): SINGLE})
    chain = custom(3, [PatternEdge(0, 1, 9), PatternEdge(1, 2, 1)])
    assert embeddings(topology, chain)[gpus(0, 1, 2)] == found([1, 2, 0], 9 * 50_000 + 25_000)


def test_ranks_that_talk_to_nobody_take_the_gpus_that_are_left() -> None:
    topology = node(0, 1, 2, 3, links={(1, 3): DOUBLE})
    pair = custom(4, [PatternEdge(1, 2)])
    assert embeddings(topology, pair)[gpus(0, 1, 2, 3)] == found([0, 1, 3, 2], 50_000)


def test_a_custom_pattern_of_one_nodes_size_or_more_leaves_no_set() -> None:
    assert embeddings(node(0, 1), custom(3, [PatternEdge(0, 2)])) == {}


def test_a_star_of_eight_is_quick_since_its_leaves_are_alike() -> None:
    star = custom(8, [PatternEdge(0, leaf) for leaf in range(1, 8)])
    topology = named("dgx1-v100")
    # Every GPU of this server has four NVLink neighbours with six NVLinks, and three on PCIe.
    assert embeddings(topology, star)[topology.mask] == found(range(8), 6 * 25_000 + 3 * 12_000)


@pytest.mark.parametrize("size", range(2, 9))
def test_on_eight_gpus_a_custom_pattern_is_always_proven(size: int) -> None:
    uneven = [PatternEdge(a, b, 1 + a + 3 * b) for b in range(size) for a in range(b)]
    assert all(one.exact for one in embeddings(named("dgx1-v100"), custom(size, uneven)).values())


def test_what_ran_out_of_steps_says_so_and_is_no_worse_than_greedy() -> None:
    topology = node(0, 1, 2, links={(1, 2): DOUBLE})
    chain = custom(3, [PatternEdge(0, 1, 5), PatternEdge(1, 2)])
    greedy, cut, proven = (
        searched_embeddings(LinkWeights.of(topology), chain, budget)[topology.mask]
        for budget in (0, 3, NODE_BUDGET)
    )
    assert (greedy.exact, cut.exact, proven.exact) == (False, False, True)
    assert greedy.aggregate_mb_per_s <= cut.aggregate_mb_per_s <= proven.aggregate_mb_per_s
    assert greedy.aggregate_mb_per_s < proven.aggregate_mb_per_s


def test_a_node_of_more_than_16_gpus_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="the node has 17 GPUs, at most 16 are supported"):
        embeddings(node(*range(17)), ring(2))


@pytest.mark.parametrize("size", [8, 16])
def test_sixteen_gpus_take_seconds(size: int) -> None:
    start = time.process_time()
    table = embeddings(SIXTEEN, ring(size))
    assert time.process_time() - start < 10
    # Every second link is a double one; the single one joins two of them.
    fastest = size // 2 * (50_000 + 12_000) + 25_000 - 12_000
    assert max(one.aggregate_mb_per_s for one in table.values()) == fastest


def test_a_custom_pattern_on_sixteen_gpus_takes_seconds() -> None:
    start = time.process_time()
    uneven = [PatternEdge(a, b, 1 + a + 3 * b) for b in range(8) for a in range(b)]
    embeddings(SIXTEEN, custom(8, uneven))
    assert time.process_time() - start < 15


def test_eight_gpus_take_no_time() -> None:
    start = time.process_time()
    ring_embeddings(LinkWeights.of(named("dgx1-v100")), 8)
    assert time.process_time() - start < 0.05


@pytest.mark.parametrize("edges", [clique_edges(8), [(0, leaf, 1) for leaf in range(1, 8)]])
def test_ranks_that_are_alike_are_tried_in_one_order_only(edges: Edges) -> None:
    pattern = custom(8, [PatternEdge(*edge) for edge in edges])
    topology = named("dgx1-v100")
    # All orders of 8 ranks are 109,600 steps.
    assert searched_embeddings(LinkWeights.of(topology), pattern, 1100)[topology.mask].exact
