"""Policies choose as exhaustive search does on real servers; inexact searches lose little."""

import random
from collections.abc import Callable, Iterable
from functools import cache

import pytest

from gputopo.bandwidth.models import MODELS
from gputopo.catalogue import named
from gputopo.patterns.bound import bounds
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.exact import best_embeddings
from gputopo.patterns.graph import link_weights
from gputopo.patterns.improve import improved_embeddings
from gputopo.patterns.model import (
    Pattern,
    PatternEdge,
    PatternKind,
    all_to_all,
    chain,
    custom,
    ring,
    ring_tree,
    star,
    tree,
)
from gputopo.patterns.plan import search_plan
from gputopo.placement.model import Match, PlacementRequest
from gputopo.placement.place import place
from gputopo.topology.model import GpuMask, NodeTopology, indices_of, mask_of
from support.mapa_oracle import (
    Exhaustive,
    Hardware,
    hardware,
    heaviest_tree,
    longest_ring,
    pattern_edges,
)

Search = Callable[[Hardware, Iterable[int]], int]

KINDS = list(PatternKind)
BIG = ("torus-2d-16", "cubemesh-16")


@cache
def server(name: str) -> NodeTopology:
    return named(name)


def pattern_of(kind: PatternKind, size: int) -> Pattern:
    if kind is PatternKind.CUSTOM:
        return custom(size, [PatternEdge(*edge) for edge in pattern_edges(kind, size)])
    builders = {
        PatternKind.RING: ring,
        PatternKind.TREE: tree,
        PatternKind.RING_TREE: ring_tree,
        PatternKind.CHAIN: chain,
        PatternKind.STAR: star,
        PatternKind.ALL_TO_ALL: all_to_all,
    }
    return builders[kind](size)


@cache
def exhaustive(name: str, kind: PatternKind, size: int, model: str) -> Exhaustive:
    edges = pattern_edges(kind, size)
    return Exhaustive(server(name), edges, size, by_eq2=model == "eq2")


def require_no_gap(name: str, kind: PatternKind, size: int, free: GpuMask, model: str) -> None:
    """Require that every policy chooses the set of the exhaustive search, with its values."""
    search = exhaustive(name, kind, size, model)
    pattern = pattern_of(kind, size)
    for (policy, sensitive), members in search.choices(indices_of(free)).items():
        request = PlacementRequest(pattern, sensitive, policy)
        match = place(server(name), free, request, MODELS[model])
        assert isinstance(match, Match)
        assert (tuple(sorted(match.gpus)), match.gpus) == (members, search.best(members)[1])
        assert (match.aggregate_mb_per_s, match.exact) == (search.best(members)[0], True)
        left = frozenset(indices_of(free)).difference(members)
        assert match.preserved_mb_per_s == search.preserved(left)
        if match.effective_mb_per_s is not None:
            assert match.effective_mb_per_s == pytest.approx(
                1000 * search.effective(members), abs=1
            )


def sizes(kind: PatternKind, largest: int) -> range:
    return range(2 if kind is PatternKind.CUSTOM else 1, largest + 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["dgx1-v100", "summit"])
def test_every_size_and_every_busy_set(name: str, kind: PatternKind) -> None:
    topology = server(name)
    for size in sizes(kind, len(topology.gpus)):
        for bits in range(1, topology.mask + 1):
            if bits.bit_count() >= size:
                require_no_gap(name, kind, size, GpuMask(bits), "aggregate")


@pytest.mark.parametrize("name", ["dgx1-v100", "summit"])
@pytest.mark.parametrize("size", range(2, 6))
def test_every_busy_set_by_equation_2(name: str, size: int) -> None:
    for bits in range(1, server(name).mask + 1):
        if bits.bit_count() >= size:
            require_no_gap(name, PatternKind.RING, size, GpuMask(bits), "eq2")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*BIG, "dgx1-p100", "pcie-8gpu", "dgx-a100"])
def test_a_sample_of_busy_sets_on_other_servers(name: str, kind: PatternKind) -> None:
    chance = random.Random(f"{name} {kind}")  # noqa: S311 - a sample
    gpus = indices_of(server(name).mask)
    for _ in range(12):
        free = chance.sample(gpus, chance.randint(2, 7))
        size = chance.randint(2, min(6, len(free)))
        require_no_gap(name, kind, size, mask_of(free), "aggregate")


@pytest.mark.parametrize("name", BIG)
@pytest.mark.parametrize("size", range(9, 17))
def test_no_ring_of_many_gpus_is_better(name: str, size: int) -> None:
    require_total(name, ring(size), longest_ring, samples=1 if size > 12 else 3)


@pytest.mark.parametrize("name", BIG)
@pytest.mark.parametrize("size", range(7, 12))
def test_no_tree_of_many_gpus_is_better(name: str, size: int) -> None:
    require_total(name, tree(size), heaviest_tree, samples=1 if size > 9 else 3)


def require_total(name: str, pattern: Pattern, search: Search, *, samples: int) -> None:
    """Require the result of an independent search for a few sets."""
    topology = server(name)
    table = embeddings(topology, pattern)
    chance = random.Random(f"{name} {pattern.kind} {pattern.size}")  # noqa: S311 - a sample
    for row in chance.sample(range(len(table.sets)), samples):
        members = indices_of(GpuMask(int(table.sets[row])))
        assert table.aggregate_mb_per_s[row] == search(hardware(topology), members)
        assert table.bound_mb_per_s[row] == table.aggregate_mb_per_s[row]


@pytest.mark.parametrize("name", BIG)
@pytest.mark.parametrize("kind", [PatternKind.RING_TREE, PatternKind.CUSTOM])
def test_an_inexact_search_loses_little(name: str, kind: PatternKind) -> None:
    """Sets of 7 of 16 GPUs, by the local search instead of the exact one."""
    weights, pattern = link_weights(server(name)), pattern_of(kind, 7)
    _, best = best_embeddings(weights, pattern, search_plan(pattern, 16))
    limits = bounds(weights, pattern)
    _, found = improved_embeddings(weights, pattern, limits)
    assert (found <= best).all()
    assert (best <= limits).all()
    lost, gap = 1 - found / best, 1 - found / limits
    assert lost.max() < 0.08
    assert lost.mean() < 0.005
    assert gap.mean() < 0.02


@pytest.mark.parametrize("name", BIG)
@pytest.mark.parametrize("size", [10, 16])
def test_the_gap_to_the_bound_for_ring_and_tree_on_sixteen_gpus(name: str, size: int) -> None:
    table = embeddings(server(name), ring_tree(size))
    gap = 1 - table.aggregate_mb_per_s / table.bound_mb_per_s
    assert 0 < gap.mean() < 0.1
    assert gap.max() < 0.15
