"""Tables that depend on a node's structure alone are built once for all nodes alike."""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple

from gputopo.topology.model import NodeTopology

_Keys = TypeVarTuple("_Keys")
_Table = TypeVar("_Table")


class _Structure(Hashable):
    """A topology that equals every other of the same fingerprint."""

    __slots__ = ("topology",)

    def __init__(self, topology: NodeTopology) -> None:
        self.topology = topology

    def __hash__(self) -> int:
        return hash(self.topology.fingerprint)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Structure)
            and self.topology.fingerprint == other.topology.fingerprint
        )


def shared_by_equal_nodes(
    maxsize: int,
) -> Callable[[Callable[[NodeTopology, *_Keys], _Table]], Callable[[NodeTopology, *_Keys], _Table]]:
    """Return a decorator that keeps the last ``maxsize`` tables a function has built.

    The function takes a topology and hashable keys; its answer may depend on the
    topology's structure only, since any other node of that structure gets it too.
    """

    def decorate(
        build: Callable[[NodeTopology, *_Keys], _Table],
    ) -> Callable[[NodeTopology, *_Keys], _Table]:
        @lru_cache(maxsize)
        def kept(structure: _Structure, *keys: *_Keys) -> _Table:
            return build(structure.topology, *keys)

        @wraps(build)
        def shared(topology: NodeTopology, *keys: *_Keys) -> _Table:
            return kept(_Structure(topology), *keys)

        return shared

    return decorate
