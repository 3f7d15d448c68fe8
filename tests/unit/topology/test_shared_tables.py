"""Tables are built once for nodes alike, and never take more memory than they may."""

from dataclasses import dataclass
from threading import Barrier, Thread

from builders import node
from gputopo.topology.model import NodeTopology
from gputopo.topology.shared import TABLES, TableStore, shared_by_equal_nodes


@dataclass(frozen=True)
class Block:
    """A table of some size."""

    nbytes: int
    number: int = 0


def numbered(store: TableStore, key: str, nbytes: int, built: list[str]) -> Block:
    """Return what the store has under ``key``; note it when it had to be built."""

    def build() -> Block:
        built.append(key)
        return Block(nbytes, len(built))

    return store.get(key, build)


def test_a_table_is_built_once_for_equal_nodes() -> None:
    built: list[tuple[NodeTopology, int]] = []

    @shared_by_equal_nodes
    def table(topology: NodeTopology, size: int) -> Block:
        built.append((topology, size))
        return Block(8, len(built))

    assert table(node(0, 1, name="a"), 2) is table(node(0, 1, name="b"), 2)
    assert table(node(0, 1), 3).number == 2
    assert table(node(0, 2), 2).number == 3


def test_two_functions_have_their_own_tables() -> None:
    @shared_by_equal_nodes
    def one(_topology: NodeTopology) -> Block:
        return Block(1)

    @shared_by_equal_nodes
    def other(_topology: NodeTopology) -> Block:
        return Block(2)

    assert (one(node(0)), other(node(0))) == (Block(1), Block(2))


def test_what_was_used_longest_ago_goes_when_the_bytes_run_out() -> None:
    store, built = TableStore(max_bytes=10), list[str]()
    for key in ("a", "b", "a", "c", "a", "b"):
        numbered(store, key, 5, built)
    assert built == ["a", "b", "c", "b"]
    assert store.nbytes == 10


def test_a_table_bigger_than_all_room_is_answered_and_not_kept() -> None:
    store, built = TableStore(max_bytes=10), list[str]()
    assert numbered(store, "big", 11, built) == Block(11, 1)
    assert store.nbytes == 0


def test_cleared_tables_are_built_anew() -> None:
    store, built = TableStore(max_bytes=10), list[str]()
    numbered(store, "a", 5, built)
    store.clear()
    assert store.nbytes == 0
    numbered(store, "a", 5, built)
    assert built == ["a", "a"]


def test_two_threads_that_build_the_same_keep_it_once() -> None:
    store, both = TableStore(max_bytes=100), Barrier(2)

    def build() -> Block:
        both.wait()
        return Block(7)

    threads = [Thread(target=store.get, args=("a", build)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.nbytes == 7


def test_all_tables_together_stay_far_below_200_mb() -> None:
    assert TABLES.max_bytes < 150_000_000
