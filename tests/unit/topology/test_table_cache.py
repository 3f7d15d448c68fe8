"""Tables are built once for equal nodes, and their memory has a limit."""

from dataclasses import dataclass
from threading import Barrier, Thread

from gputopo.topology.model import NodeTopology
from gputopo.topology.tables import TABLES, cached_by_fingerprint
from support.builders.topologies import node


@dataclass(frozen=True)
class Block:
    """A table of a given size."""

    nbytes: int
    number: int = 0


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
    built: list[int] = []
    part = int(TABLES.maxsize // 2)

    @cached_by_fingerprint
    def table(_topology: NodeTopology, number: int) -> Block:
        built.append(number)
        return Block(part, number)

    for number in (1, 2, 1, 3, 1, 2):
        table(node(0), number)
    assert built == [1, 2, 3, 2]
    assert TABLES.currsize <= TABLES.maxsize
    TABLES.clear()
    table(node(0), 1)
    assert built == [1, 2, 3, 2, 1]
    TABLES.clear()


def test_a_table_above_the_limit_is_returned_and_not_cached() -> None:
    @cached_by_fingerprint
    def table(_topology: NodeTopology) -> Block:
        return Block(int(TABLES.maxsize) + 1)

    before = TABLES.currsize
    assert table(node(0)).nbytes > TABLES.maxsize
    assert TABLES.currsize == before


def test_two_threads_that_build_the_same_table_store_it_once() -> None:
    both, results = Barrier(2), list[Block]()

    @cached_by_fingerprint
    def table(_topology: NodeTopology) -> Block:
        both.wait()
        return Block(7)

    before = TABLES.currsize
    threads = [Thread(target=lambda: results.append(table(node(0)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] is results[1]
    assert TABLES.currsize == before + 7


def test_all_tables_together_stay_below_150_mb() -> None:
    assert TABLES.maxsize < 150_000_000
