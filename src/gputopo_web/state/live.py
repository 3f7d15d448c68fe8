"""The objects that explanations use, as the page watches them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from gputopo_explain.objects import ClusterObjects, LiveKind
from gputopo_explain.snapshot import ClusterSnapshot

_NOT_READ: Final = "not read by this page, but by `gputopo explain`"
NOT_WATCHED: Final = {
    LiveKind.NODES: _NOT_READ,
    LiveKind.LEASES: _NOT_READ,
    LiveKind.PRIORITY_CLASSES: _NOT_READ,
}
"""Kinds that explanations can use and that the page does not watch."""


@dataclass(frozen=True)
class WatchedCluster(ClusterObjects):
    """The objects of the page. The GPUs are parsed already, so they need not be parsed again."""

    parsed: ClusterSnapshot | None = None

    @cached_property
    def snapshot(self) -> ClusterSnapshot:
        """The GPUs and their users."""
        found = super().snapshot if self.parsed is None else self.parsed
        return found.with_sharing(self.sharing)

    def after(
        self, ended: Iterable[str] = (), without_nodes: Collection[str] = ()
    ) -> "WatchedCluster":
        """Return the objects as if these pods had ended and these nodes did not exist."""
        uids = frozenset(ended)
        parsed = self.snapshot.without_pods(uids).without_nodes(frozenset(without_nodes))
        return replace(self, ended=self.ended | uids, parsed=parsed)
