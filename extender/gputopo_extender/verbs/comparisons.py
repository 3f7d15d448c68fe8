"""Keeps the comparison of nodes of each pod from filter until bind.

bind writes the comparison into the pod's annotation. If another process has answered filter, for
instance after a change of leader, the comparison is unknown.
"""

from typing import Final

from cachetools import LRUCache

from gputopo_scheduling.comparison import NodeComparison

_MOST_NODES: Final = 100_000
"""Nodes of all comparisons together: about 15 MB."""


class NodeComparisons:
    """Comparisons by UID of the pod; drops the oldest if they have too many nodes together."""

    def __init__(self, most_nodes: int = _MOST_NODES) -> None:
        """Keep comparisons with at most ``most_nodes`` nodes together, and at least one."""
        # A value larger than the cache is an error, so such a comparison counts as the whole cache.
        self._kept = LRUCache[str, NodeComparison](
            most_nodes, getsizeof=lambda each: min(len(each.ranks), most_nodes)
        )

    def put(self, uid: str, comparison: NodeComparison) -> None:
        """Keep the comparison of the pod's newest filter."""
        # Otherwise the former comparison of the pod would count while others are dropped.
        self.pop(uid)
        self._kept[uid] = comparison

    def __contains__(self, uid: object) -> bool:
        return uid in self._kept

    def pop(self, uid: str) -> NodeComparison | None:
        """Remove and return the comparison of a pod; None if it is unknown."""
        return self._kept.pop(uid, None)
