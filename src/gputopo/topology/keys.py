"""Cache keys that stand for a topology."""

from collections.abc import Hashable

from gputopo.topology.model import NodeTopology


class FingerprintKey(Hashable):
    """A cache key with a topology. Keys are equal if their topologies have equal fingerprints."""

    __slots__ = ("topology",)

    def __init__(self, topology: NodeTopology) -> None:
        self.topology = topology

    def __hash__(self) -> int:
        return hash(self.topology.fingerprint)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FingerprintKey)
            and self.topology.fingerprint == other.topology.fingerprint
        )
