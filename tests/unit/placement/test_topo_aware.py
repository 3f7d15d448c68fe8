"""TopoAware chooses few blocks of the PCIe tree, with the fewest free GPUs."""

import pytest

from gputopo.catalogue import named
from gputopo.patterns.model import ring
from gputopo.placement.model import Match, PlacementRequest, PolicyName
from gputopo.placement.place import place
from gputopo.topology.model import GpuMask
from support.builders.topologies import gpus, node

DGX1 = named("dgx1-v100")  # sockets 0-3 and 4-7, switches of two


def chosen(free: GpuMask, size: int) -> set[int]:
    request = PlacementRequest(ring(size), sensitive=True, policy=PolicyName.TOPO_AWARE)
    match = place(DGX1, free, request)
    assert isinstance(match, Match)
    return set(match.gpus)


@pytest.mark.parametrize(
    ("free", "size", "expected"),
    [
        (DGX1.mask, 2, {0, 1}),
        (gpus(0, 2, 4, 5), 2, {4, 5}),  # one switch rather than two
        (gpus(1, 4, 5, 6), 1, {1}),  # the socket with fewer GPUs free
        (gpus(1, 2, 3, 4, 6), 2, {4, 6}),  # the socket with fewer free, though on two switches
        (gpus(0, 1, 2, 4, 5, 6, 7), 4, {4, 5, 6, 7}),  # one socket rather than two
        (gpus(0, 1, 2, 4, 5, 7), 3, {0, 1, 2}),
        (gpus(0, 1, 3), 1, {3}),  # the switch that is half taken
        (gpus(0, 3, 4, 7), 3, {0, 3, 4}),  # two sockets are needed: the lowest
    ],
)
def test_few_blocks_of_few_free_gpus_are_chosen(
    free: GpuMask, size: int, expected: set[int]
) -> None:
    assert chosen(free, size) == expected


def test_nvlinks_are_ignored() -> None:
    assert chosen(DGX1.mask, 3) == {0, 1, 2}


def test_among_equally_near_gpus_the_lowest_are_chosen() -> None:
    flat = node(0, 3, 9, 40)
    request = PlacementRequest(ring(2), sensitive=True, policy=PolicyName.TOPO_AWARE)
    match = place(flat, gpus(3, 9, 40), request)
    assert isinstance(match, Match)
    assert match.gpus == (3, 9)
