"""Cache of the tables that are computed once for all nodes of equal fingerprint."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

from gputopo.topology.model import NodeTopology


class Table(Protocol):
    """A value of the cache: numpy arrays, and classes that hold some."""

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""


_Keys = TypeVarTuple("_Keys")
_Table = TypeVar("_Table", bound=Table)


class FingerprintKey(Hashable):
    """A topology as a key of a cache: equal to every topology of the same fingerprint."""

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


class TableCache:
    """Least-recently-used cache of tables, limited by bytes; several threads may use it."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._tables: OrderedDict[Hashable, Any] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Memory of all tables in the cache."""
        return self._bytes

    def get(self, key: Hashable, build: Callable[[], _Table]) -> _Table:
        """Return the table of ``key``; build and store it if it is missing.

        It is built outside the lock, so that other threads continue. Two threads may build
        the same table; one of the equal results is stored.
        """
        with self._lock:
            if key in self._tables:
                self._tables.move_to_end(key)
                cached: _Table = self._tables[key]
                return cached
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
        """Remove all tables."""
        with self._lock:
            self._tables.clear()
            self._bytes = 0


TABLES: Final = TableCache(max_bytes=128 * 2**20)
"""All tables of this process. One pattern in all sizes on 16 GPUs takes 3 MB."""


def cached_by_fingerprint(
    build: Callable[[NodeTopology, *_Keys], _Table],
) -> Callable[[NodeTopology, *_Keys], _Table]:
    """Cache the tables that a function returns in :data:`TABLES`.

    The function takes a topology and hashable keys. Of the topology, its result may depend
    only on what the fingerprint covers, because all nodes of that fingerprint share it.
    """

    @wraps(build)
    def cached(topology: NodeTopology, *keys: *_Keys) -> _Table:
        key = (build, topology.fingerprint, *keys)
        return TABLES.get(key, lambda: build(topology, *keys))

    return cached
