"""Tables are built once for equal nodes, and their memory has a limit."""

from dataclasses import dataclass
from threading import Barrier, Thread

from gputopo.topology.model import NodeTopology
from gputopo.topology.tables import TABLES, TableCache, cached_by_fingerprint
from support.builders.topologies import node


@dataclass(frozen=True)
class Block:
    """A table of a given size."""

    nbytes: int
    number: int = 0


def numbered(cache: TableCache, key: str, nbytes: int, built: list[str]) -> Block:
    """Return the table of ``key``; append the key to ``built`` when it is built."""

    def build() -> Block:
        built.append(key)
        return Block(nbytes, len(built))

    return cache.get(key, build)


def test_a_table_is_built_once_for_equal_nodes() -> None:
    built: list[tuple[NodeTopology, int]] = []

    @cached_by_fingerprint
    def table(topology: NodeTopology, size: int) -> Block:
        built.append((topology, size))
        return Block(8, len(built))

    assert table(node(0, 1, name="a"), 2) is table(node(0, 1, name="b"), 2)
    assert table(node(0, 1), 3).number == 2
    assert table(node(0, 2), 2).number == 3


def test_two_functions_have_separate_tables() -> None:
    @cached_by_fingerprint
    def one(_topology: NodeTopology) -> Block:
        return Block(1)

    @cached_by_fingerprint
    def other(_topology: NodeTopology) -> Block:
        return Block(2)

    assert (one(node(0)), other(node(0))) == (Block(1), Block(2))


def test_the_least_recently_used_table_is_removed_at_the_limit() -> None:
    cache, built = TableCache(max_bytes=10), list[str]()
    for key in ("a", "b", "a", "c", "a", "b"):
        numbered(cache, key, 5, built)
    assert built == ["a", "b", "c", "b"]
    assert cache.nbytes == 10


def test_a_table_above_the_limit_is_returned_and_not_cached() -> None:
    cache, built = TableCache(max_bytes=10), list[str]()
    assert numbered(cache, "big", 11, built) == Block(11, 1)
    assert cache.nbytes == 0


def test_tables_are_built_again_after_clear() -> None:
    cache, built = TableCache(max_bytes=10), list[str]()
    numbered(cache, "a", 5, built)
    cache.clear()
    assert cache.nbytes == 0
    numbered(cache, "a", 5, built)
    assert built == ["a", "a"]


def test_two_threads_that_build_the_same_table_store_it_once() -> None:
    cache, both = TableCache(max_bytes=100), Barrier(2)

    def build() -> Block:
        both.wait()
        return Block(7)

    threads = [Thread(target=cache.get, args=("a", build)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.nbytes == 7


def test_all_tables_together_stay_below_150_mb() -> None:
    assert TABLES.max_bytes < 150_000_000
