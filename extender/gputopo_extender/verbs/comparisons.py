"""Keeps the comparison of nodes of each pod from filter until bind.

bind writes the comparison into the pod's annotation. If another process has answered filter, for
instance after a change of leader, the comparison is unknown.
"""

from collections import OrderedDict
from typing import Final

from gputopo_scheduling.comparison import NodeComparison

_MOST_NODES: Final = 100_000
"""Nodes of all comparisons together: about 15 MB."""


class NodeComparisons:
    """Comparisons by UID of the pod; drops the oldest if they have too many nodes together."""

    def __init__(self, most_nodes: int = _MOST_NODES) -> None:
        """Keep comparisons with at most ``most_nodes`` nodes together, and at least one."""
        self._most_nodes = most_nodes
        self._kept: OrderedDict[str, NodeComparison] = OrderedDict()
        self._nodes = 0

    def put(self, uid: str, comparison: NodeComparison) -> None:
        """Keep the comparison of the pod's newest filter."""
        self.pop(uid)
        self._kept[uid] = comparison
        self._nodes += len(comparison.ranks)
        while self._nodes > self._most_nodes and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._nodes -= len(dropped.ranks)

    def __contains__(self, uid: object) -> bool:
        return uid in self._kept

    def pop(self, uid: str) -> NodeComparison | None:
        """Remove and return the comparison of a pod; None if it is unknown."""
        found = self._kept.pop(uid, None)
        if found is not None:
            self._nodes -= len(found.ranks)
        return found
