"""The bytes that the metric of NVLink counts."""

from collections.abc import Mapping

import pytest

from gputopo.counters.model import ByteCount, GpuCounters
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.counters.figures import NvlinkBytes, NvlinkIncrease
from gputopo_deviceplugin.counters.gpu_reader import GpuReading

GPU = GpuUuid("GPU-0")
SECOND = 1_000_000


def node(
    links: Mapping[int, tuple[int, int]], at: int, *, epoch: int = 0, total: int | None = None
) -> dict[GpuUuid, GpuReading]:
    counts = {link: ByteCount(*count, at * SECOND) for link, count in links.items()}
    nvlink = None if total is None else ByteCount(total, total, at * SECOND)
    return {GPU: GpuReading(GpuCounters(counts, nvlink), (0, epoch))}


BEFORE = node({0: (100, 200), 1: (1000, 1000)}, 1)


def increase(after: Mapping[GpuUuid, GpuReading]) -> dict[GpuUuid, NvlinkBytes]:
    figures = NvlinkIncrease()
    assert figures.add(BEFORE) == {}
    return figures.add(after)


def test_the_links_are_added() -> None:
    assert increase(node({0: (110, 205), 1: (1001, 1000)}, 2)) == {GPU: NvlinkBytes(11, 5)}


def test_the_sum_of_the_links_counts_where_there_is_nothing_else() -> None:
    figures = NvlinkIncrease()
    figures.add(node({}, 1, total=5))
    assert figures.add(node({}, 2, total=9)) == {GPU: NvlinkBytes(4, 4)}


@pytest.mark.parametrize(
    "after",
    [
        node({0: (110, 205), 1: (999, 1000)}, 2),
        node({0: (110, 205), 1: (1001, 1000)}, 2, epoch=1),
        node({0: (110, 205)}, 2),
        node({}, 2),
        node({0: (10**14, 205), 1: (1001, 1000)}, 2),
        node({0: (110, 205), 1: (1001, 1000)}, 1),
    ],
    ids=["decrease", "other source", "link lost", "none", "too many", "no time"],
)
def test_bytes_that_are_not_known_do_not_count(after: dict[GpuUuid, GpuReading]) -> None:
    assert increase(after) == {}


def test_after_a_break_the_count_begins_again() -> None:
    figures = NvlinkIncrease()
    figures.add(BEFORE)
    figures.forget()
    assert figures.add(node({0: (110, 205), 1: (1001, 1000)}, 2)) == {}
