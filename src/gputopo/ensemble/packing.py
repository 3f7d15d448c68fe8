"""Checks whether members fit on nodes, by best-fit decreasing.

The largest member is first, and each gets the node that it fills best.

Nodes with equal numbers of free GPUs are equal here, so the cost does not depend on the number of
nodes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence


def fits(sizes: Iterable[int], free: Sequence[int], *, one_node: bool) -> bool:
    """Return whether members with these numbers of GPUs fit on nodes with ``free`` GPUs.

    If each member must be on one node, best-fit decreasing may reject a set that a better packing
    would fit.

    >>> fits([3, 3, 2], [4, 4], one_node=True), fits([3, 3, 2], [4, 4], one_node=False)
    (False, True)
    """
    wanted = sorted(sizes, reverse=True)
    if not one_node:
        return sum(wanted) <= sum(free)
    nodes = Counter(free)
    for size in wanted:
        best = best_fit(nodes, size)
        if best is None:
            return False
        take(nodes, best, size)
    return True


def best_fit(nodes: Counter[int], size: int) -> int | None:
    """Return the least number of free GPUs of a node that has ``size`` of them."""
    return min((free for free in nodes if free >= size), default=None)


def take(nodes: Counter[int], free: int, size: int) -> None:
    """Use ``size`` GPUs of one of the nodes that have ``free``."""
    nodes[free] -= 1
    if not nodes[free]:
        del nodes[free]
    nodes[free - size] += 1
