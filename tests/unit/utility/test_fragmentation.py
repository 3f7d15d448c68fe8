"""Fragmentation is the free part of the sockets that a placement uses."""

import pytest

from gputopo.topology.model import GpuMask
from gputopo.utility.fragmentation import SocketUse, fragmentation_cost, used_sockets
from support.builders.topologies import gpus

SOCKETS = (gpus(0, 1), gpus(2, 3), gpus(4, 5, 6, 7))


@pytest.mark.parametrize(
    ("chosen", "free", "used"),
    [
        (gpus(0), gpus(0, 1, 2), [(1, 2)]),
        (gpus(0, 1), gpus(0, 1, 2), [(0, 2)]),
        (gpus(0, 2), gpus(0, 1, 2, 5), [(1, 2), (0, 2)]),
        (gpus(5), gpus(4, 5, 6), [(2, 4)]),
    ],
)
def test_only_used_sockets_count(
    chosen: GpuMask, free: GpuMask, used: list[tuple[int, int]]
) -> None:
    assert used_sockets(chosen, free, SOCKETS) == used


def test_cost_is_the_mean_free_part() -> None:
    cost = fragmentation_cost([SocketUse(1, 2), SocketUse(3, 4)], largest_socket=4)
    assert (cost.value, cost.best, cost.worst) == (0.625, 0, 0.75)


def test_full_sockets_are_ideal_and_one_gpu_of_an_idle_socket_is_worst() -> None:
    assert fragmentation_cost([SocketUse(0, 4)], 4).term == 1
    assert fragmentation_cost([SocketUse(3, 4)], 4).term == pytest.approx(0.01)


def test_sockets_of_one_gpu_are_never_fragmented() -> None:
    assert fragmentation_cost([SocketUse(0, 1)], 1).term == 1
