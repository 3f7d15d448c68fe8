"""How jobs lay their traffic over the GPUs of a set, as NCCL and parallel programs do.

Nothing here uses code of :mod:`gputopo.counters`. Sources: NCCL's ``src/graph`` (rings over all
NVLinks; in one node a tree is a chain, ``connect.cc``; ``trees.cc`` has the double binary tree that
it uses between nodes).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, permutations
from random import Random
from types import MappingProxyType
from typing import Final, TypeAlias

Pair: TypeAlias = tuple[int, int]

Traffic: TypeAlias = Counter[Pair]
"""Relative bytes of one step by sender and receiver; the numbers are positions in the GPU set."""

Links: TypeAlias = Mapping[Pair, int]
"""Number of NVLinks of each pair ``(a, b)`` with a < b; pairs without NVLink are missing."""

UNIT: Final = 1000

_MOST_ORDERS: Final = 720
"""For more orders than this, only so many are compared."""


def one_ring(links: Links, size: int, random: Random) -> Traffic:
    """One ring order for all channels, some of which may run backwards."""
    order = _best_order(links, size, random, closed=True)
    both = random.random() < 0.5  # noqa: PLR2004 - half of the jobs
    return _path(order, UNIT, UNIT if both else 0, closed=True)


def several_rings(links: Links, size: int, random: Random) -> Traffic:
    """Rings until no NVLinks are left for one more, each in both directions."""
    left = Counter(links)
    found: Traffic = Counter()
    while order := _next_ring(left, size, random):
        found.update(_path(order, UNIT, UNIT, closed=True))
        left.subtract(_ends(order))
    return found or _path(_best_order(links, size, random, closed=True), UNIT, UNIT, closed=True)


def binary_tree(links: Links, size: int, random: Random) -> Traffic:
    """A balanced binary tree, data up and results down, with the ranks where links are best."""
    edges = [((rank - 1) // 2, rank) for rank in range(1, size)]
    return _both_ways(_placed(edges, links, size, random), UNIT)


def nccl_tree(links: Links, size: int, random: Random) -> Traffic:
    """NCCL's tree within one node: a chain, data up and results down."""
    return _path(_best_order(links, size, random), UNIT, UNIT)


def double_binary_tree(links: Links, size: int, random: Random) -> Traffic:
    """NCCL's trees between nodes, here with one GPU for each node; each has half of the data."""
    first = _nccl_binary_tree(size)
    second = [
        tuple((rank - 1) % size if size % 2 else size - 1 - rank for rank in edge) for edge in first
    ]
    edges = [(a, b) for a, b in (*first, *second)]
    return _both_ways(_placed(edges, links, size, random), UNIT // 2)


def ring_and_tree(links: Links, size: int, random: Random) -> Traffic:
    """Large messages on a ring and small ones on a tree, in unequal parts."""
    share = random.uniform(0.35, 0.65)
    ring = [(rank, (rank + 1) % size) for rank in range(size)]
    tree = [((rank - 1) // 2, rank) for rank in range(1, size)]
    ranks = _placement([*ring, *tree], links, size, random)
    found = _both_ways([(ranks[a], ranks[b]) for a, b in ring], int(UNIT * share / 2))
    found.update(_both_ways([(ranks[a], ranks[b]) for a, b in tree], int(UNIT * (1 - share) / 2)))
    return found


def pipeline(links: Links, size: int, random: Random) -> Traffic:
    """Activations forward, gradients of 30 to 100 % of their size backward."""
    order = _best_order(links, size, random)
    return _path(order, UNIT, int(UNIT * random.uniform(0.3, 1)))


def parameter_server(links: Links, size: int, random: Random) -> Traffic:
    """Gradients to one GPU, weights back."""
    degrees = Counter(end for pair in links for end in pair)
    best = max((degrees[gpu] for gpu in range(size)), default=0)
    centre = random.choice([gpu for gpu in range(size) if degrees[gpu] == best])
    back = int(UNIT * random.uniform(0.5, 1))
    others = [gpu for gpu in range(size) if gpu != centre]
    return Counter(
        {(gpu, centre): UNIT for gpu in others} | {(centre, gpu): back for gpu in others}
    )


def all_to_all(_links: Links, size: int, _random: Random) -> Traffic:
    """Equal parts between all pairs, as with experts."""
    return Counter(dict.fromkeys(permutations(range(size), 2), UNIT))


def silence(_links: Links, _size: int, _random: Random) -> Traffic:
    """No traffic at all."""
    return Counter()


LAYOUTS: Final[Mapping[str, Callable[[Links, int, Random], Traffic]]] = MappingProxyType(
    {
        "Ring": one_ring,
        "Ring, several orders": several_rings,
        "Tree": binary_tree,
        "Tree, NCCL in a node": nccl_tree,
        "Tree, double binary": double_binary_tree,
        "RingTree": ring_and_tree,
        "Chain": pipeline,
        "Star": parameter_server,
        "AllToAll": all_to_all,
        "None": silence,
    }
)
"""The patterns of jobs, some of them in several forms."""


def _nccl_binary_tree(size: int) -> list[Pair]:
    """Return the edges of NCCL's ``ncclGetBtree``: the parent of a rank clears its lowest bit."""
    edges = []
    for rank in range(1, size):
        bit = rank & -rank
        parent = (rank ^ bit) | (bit << 1)
        edges.append((parent if parent < size else rank ^ bit, rank))
    return edges


def _both_ways(edges: Sequence[Pair], amount: int) -> Traffic:
    found: Traffic = Counter()
    for a, b in edges:
        found[a, b] += amount
        found[b, a] += amount
    return found


def _path(order: Sequence[int], forward: int, back: int, *, closed: bool = False) -> Traffic:
    hops = [*pairwise(order), *([(order[-1], order[0])] if closed else [])]
    found: Traffic = Counter()
    for a, b in hops:
        found[a, b] += forward
        found[b, a] += back
    return +found


def _ends(order: Sequence[int]) -> list[Pair]:
    """Return the pairs of a ring; a ring of two GPUs uses its pair once for each direction."""
    hops = [*pairwise(order), (order[-1], order[0])][: len(order) if len(order) > 2 else 1]  # noqa: PLR2004
    return [(min(hop), max(hop)) for hop in hops]


def _next_ring(left: Counter[Pair], size: int, random: Random) -> Sequence[int] | None:
    rings = [order for order in _orders(size, random) if all(left[p] > 0 for p in _ends(order))]
    return random.choice(rings) if rings else None


def _orders(size: int, random: Random) -> Sequence[tuple[int, ...]]:
    everything = _permutations(size)
    return (
        everything if len(everything) <= _MOST_ORDERS else random.sample(everything, _MOST_ORDERS)
    )


@lru_cache(maxsize=16)
def _permutations(size: int) -> tuple[tuple[int, ...], ...]:
    """Return all orders that begin with 0."""
    return tuple((0, *rest) for rest in permutations(range(1, size)))


def _best_order(links: Links, size: int, random: Random, *, closed: bool = False) -> Sequence[int]:
    """Return a random one of the orders with the most NVLinked hops."""
    edges = [(rank, rank + 1) for rank in range(size - 1)] + ([(size - 1, 0)] if closed else [])
    ranks = _placement(edges, links, size, random)
    return [ranks[rank] for rank in range(size)]


def _placed(edges: Sequence[Pair], links: Links, size: int, random: Random) -> list[Pair]:
    ranks = _placement(edges, links, size, random)
    return [(ranks[a], ranks[b]) for a, b in edges]


def _placement(edges: Sequence[Pair], links: Links, size: int, random: Random) -> Sequence[int]:
    """Return the GPU of each rank, so that many edges have NVLinks."""
    candidates: list[Sequence[int]] = [
        random.sample(range(size), size) for _ in range(_MOST_ORDERS // 4)
    ]
    return max(
        candidates,
        key=lambda ranks: sum(
            (min(ranks[a], ranks[b]), max(ranks[a], ranks[b])) in links for a, b in edges
        ),
    )
