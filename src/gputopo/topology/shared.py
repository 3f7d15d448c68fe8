"""Tables that depend on a node's structure alone are built once for all nodes alike."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

from gputopo.topology.model import NodeTopology


class Table(Protocol):
    """What is kept: it knows its memory, as numpy's arrays do."""

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""


_Keys = TypeVarTuple("_Keys")
_Table = TypeVar("_Table", bound=Table)


class Structure(Hashable):
    """A topology that equals every other of the same fingerprint."""

    __slots__ = ("topology",)

    def __init__(self, topology: NodeTopology) -> None:
        self.topology = topology

    def __hash__(self) -> int:
        return hash(self.topology.fingerprint)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Structure) and self.topology.fingerprint == other.topology.fingerprint
        )


class TableStore:
    """The tables used last, up to a limit of bytes; safe to use from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._tables: OrderedDict[Hashable, Any] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Memory of all tables kept."""
        return self._bytes

    def get(self, key: Hashable, build: Callable[[], _Table]) -> _Table:
        """Return the table kept under ``key``, or build and keep it.

        Built outside the lock: others go on meanwhile, and two who build the same build
        equal tables.
        """
        with self._lock:
            if key in self._tables:
                self._tables.move_to_end(key)
                kept: _Table = self._tables[key]
                return kept
        table = build()
        with self._lock:
            if key not in self._tables:
                self._tables[key] = table
                self._bytes += table.nbytes
            while self._bytes > self.max_bytes:
                _, oldest = self._tables.popitem(last=False)
                self._bytes -= oldest.nbytes
        return table

    def clear(self) -> None:
        """Forget all tables."""
        with self._lock:
            self._tables.clear()
            self._bytes = 0


TABLES: Final = TableStore(max_bytes=128 * 2**20)
"""All tables of this process: those of one pattern in all sizes on 16 GPUs are 3 MB."""


def shared_by_equal_nodes(
    build: Callable[[NodeTopology, *_Keys], _Table],
) -> Callable[[NodeTopology, *_Keys], _Table]:
    """Keep the tables that a function builds, in :data:`TABLES`.

    The function takes a topology and hashable keys; its answer may depend on the
    topology's structure only, since any other node of that structure gets it too.
    """

    @wraps(build)
    def shared(topology: NodeTopology, *keys: *_Keys) -> _Table:
        key = (build, topology.fingerprint, *keys)
        return TABLES.get(key, lambda: build(topology, *keys))

    return shared
