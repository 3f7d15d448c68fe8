"""Assigns the members of a flotilla to nodes (FLEET, algorithm 2).

The score of an assignment is the number of node borders inside members: a member on ``n`` nodes
adds ``n - 1``. The paper's score is equation 7 of its main text, which is not among our sources.

1. Members whose number of GPUs is a multiple of a node's GPUs get whole nodes.
2. Two members whose GPUs together are such a multiple get whole nodes together.
3. The order of all others is varied, at most 1,024 times, and the order with the lowest score wins.

The paper's algorithm looks partners up by the same remainder by which it stores them, so that it
would pair members with equal remainders. Its purpose is described in its text: the sum of two
remainders must fill a node. That is done here.

The paper assumes equal nodes and fills them from the first GPU to the last. Here nodes can have
different numbers of free GPUs: steps 1 and 2 are done for each of these numbers, the largest
first. In step 3, a member gets the node that it fills best. If no node has enough GPUs, it gets
those with most GPUs, and the last of them is the one that it fills best. Members of equal size are
exchangeable, so equal orders are tried once. The search ends if no better score is possible.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from gputopo.ensemble.model import MemberPlacement, NodeGpuCount
from gputopo.ensemble.rates import EnsembleError

MAX_ORDERS: Final = 1024
"""Most orders that step 3 tries, as in the paper."""


@dataclass(slots=True)
class _Nodes:
    """Free GPUs of each node, the nodes of the members, and the node borders inside members.

    No node has more than ``most`` free GPUs; so a search for the largest number is short.
    """

    free: list[int]
    most: int
    one_node: bool
    borders: int = 0
    assigned: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def copy(self) -> "_Nodes":
        return _Nodes(
            self.free.copy(), self.most, self.one_node, self.borders, self.assigned.copy()
        )

    def take(self, member: str, node: int, gpus: int) -> None:
        self.free[node] -= gpus
        others = self.assigned.get(member, ())
        self.assigned[member] = (*others, (node, gpus))
        self.borders += bool(others)

    def place(self, member: str, gpus: int) -> bool:
        """Use the nodes that fit best; return whether there were enough GPUs."""
        while gpus > self.largest():
            if self.one_node or not self.most:
                return False
            self.take(member, self.free.index(self.most), self.most)
            gpus -= self.most
        fit = next(free for free in range(gpus, self.most + 1) if free in self.free)
        self.take(member, self.free.index(fit), gpus)
        return True

    def largest(self) -> int:
        """Return the largest number of free GPUs of a node."""
        while self.most and self.most not in self.free:
            self.most -= 1
        return self.most

    def whole(self, size: int, gpus: int) -> list[int]:
        """Return nodes with ``size`` free GPUs that ``gpus`` fill; empty if it is not possible."""
        count = gpus // size
        found = [node for node, free in enumerate(self.free) if free == size][:count]
        possible = gpus % size == 0 and len(found) == count and not (self.one_node and count > 1)
        return found if possible else []


def assign(
    sizes: Mapping[str, int], nodes: Sequence[NodeGpuCount], *, one_node: bool
) -> tuple[MemberPlacement, ...] | None:
    """Return the nodes of each member, in the order of ``sizes``; None if they do not fit.

    It finds an assignment whenever :func:`gputopo.ensemble.packing.fits` does.

    Args:
        sizes: number of GPUs by member.
        nodes: nodes with the numbers of their free GPUs.
        one_node: whether each member must be on one node.
    """
    if any(size < 1 for size in sizes.values()):
        raise EnsembleError(f"sizes: {dict(sizes)}; each member needs at least one GPU")
    free = [node.gpus for node in nodes]
    start = _Nodes(free, max(free, default=0), one_node)
    pruned = start.copy()
    remaining = _fill_pairs(pruned, _fill_nodes(pruned, sizes))
    best = _search(pruned, remaining)
    if best is None and len(remaining) < len(sizes):
        best = _search(start, sizes)
    if best is None:
        return None
    return tuple(
        MemberPlacement(
            member,
            tuple(NodeGpuCount(nodes[place].name, gpus) for place, gpus in best.assigned[member]),
        )
        for member in sizes
    )


def node_borders(placements: Sequence[MemberPlacement]) -> int:
    """Return the score of an assignment; 0 if each member is on one node."""
    return sum(len(placement.nodes) - 1 for placement in placements)


def _fill_nodes(nodes: _Nodes, sizes: Mapping[str, int]) -> dict[str, int]:
    """Give whole nodes to members that fill them (step 1); return the other members."""
    remaining = dict(sizes)
    for size in sorted({free for free in nodes.free if free}, reverse=True):
        for member, gpus in list(remaining.items()):
            for node in nodes.whole(size, gpus):
                nodes.take(member, node, size)
                remaining.pop(member, None)
    return remaining


def _fill_pairs(nodes: _Nodes, sizes: Mapping[str, int]) -> dict[str, int]:
    """Give whole nodes to pairs that fill them (step 2); return the other members.

    Example with nodes of 4: 5 and 7 GPUs have the remainders 1 and 3. They get 3 nodes: the first
    member one of them, the second one another, and both the third.
    """
    remaining = dict(sizes)
    for size in sorted({free for free in nodes.free if free}, reverse=True):
        by_remainder: dict[int, list[str]] = {}
        for member, gpus in list(remaining.items()):
            partners = by_remainder.get(-gpus % size, [])
            if partners and _fill_pair(nodes, remaining, (partners[0], member), size):
                del remaining[partners.pop(0)], remaining[member]
            else:
                by_remainder.setdefault(gpus % size, []).append(member)
    return remaining


def _fill_pair(nodes: _Nodes, sizes: Mapping[str, int], pair: tuple[str, str], size: int) -> bool:
    """Give whole nodes to two members; return whether there were enough."""
    whole = nodes.whole(size, sum(sizes[member] for member in pair))
    places = iter([node for node in whole for _ in range(size)])
    for member in pair if whole else ():
        for node, gpus in Counter(islice(places, sizes[member])).items():
            nodes.take(member, node, gpus)
    return bool(whole)


def _search(start: _Nodes, sizes: Mapping[str, int]) -> _Nodes | None:
    """Return the assignment with the lowest score of at most 1,024 orders (step 3)."""
    best: _Nodes | None = None
    names: dict[int, list[str]] = {}
    for member, gpus in sizes.items():
        names.setdefault(gpus, []).append(member)
    least = start.borders + _least_borders(sizes.values(), start.free)
    placed = [start]  # after 0, 1, 2 members of the order
    for order, same in _orders(sorted(sizes.values(), reverse=True)):
        del placed[same + 1 :]
        _place_all(placed, order, names)
        found = placed[-1]
        if len(placed) > len(order) and (best is None or found.borders < best.borders):
            best = found
        if best and best.borders == least:
            break
    return best


def _place_all(placed: list[_Nodes], order: Sequence[int], names: Mapping[int, list[str]]) -> None:
    """Place the members of an order behind those that are placed, until one does not fit."""
    for position in range(len(placed) - 1, len(order)):
        gpus, nodes = order[position], placed[-1].copy()
        if not nodes.place(names[gpus][order[:position].count(gpus)], gpus):
            return
        placed.append(nodes)


def _least_borders(sizes: Iterable[int], free: Sequence[int]) -> int:
    """Return a lower bound of the borders: each member alone on the nodes with most GPUs."""
    ordered = sorted(free, reverse=True)
    borders = 0
    for size in sizes:
        count, gpus = 0, 0
        while gpus < size and count < len(ordered):
            gpus += ordered[count]
            count += 1
        borders += max(0, count - 1)
    return borders


def _orders(sizes: list[int]) -> Iterator[tuple[list[int], int]]:
    """Yield different orders of descending sizes, at most ``MAX_ORDERS``, each once.

    The second value is the number of sizes at the begin that are the same as in the order before.
    The order that follows is the next lower one: it has a smaller number at the last place where
    this is possible, and the largest possible numbers behind it.
    """
    order, same = sizes, 0
    for _ in range(MAX_ORDERS):
        yield order, same
        last = len(order) - 2
        while last >= 0 and order[last] <= order[last + 1]:
            last -= 1
        if last < 0:
            return
        order, same = order.copy(), last
        behind = [at for at in range(last + 1, len(order)) if order[at] < order[last]]
        lower = max(behind, key=lambda at: order[at])
        order[last], order[lower] = order[lower], order[last]
        order[last + 1 :] = sorted(order[last + 1 :], reverse=True)
