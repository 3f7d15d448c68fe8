"""How much of the sockets that a job uses stays free (equation 5 of the paper).

Equation 5 is a mean over all sockets of the system. This mean depends only on the number of GPUs
that are free, so it cannot compare two placements of one job. Here it is taken over the sockets
that the placement uses. It is least if the job fills sockets that others have begun to use.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from gputopo.topology.model import GpuMask
from gputopo.utility.cost import Cost


class SocketUse(NamedTuple):
    """A socket that a job uses: its GPUs that stay free, and all its GPUs."""

    free: int
    total: int


def used_sockets(gpus: GpuMask, free: GpuMask, sockets: Iterable[GpuMask]) -> list[SocketUse]:
    """Return the sockets that ``gpus`` uses, if ``free`` were the free GPUs before.

    >>> used_sockets(GpuMask(0b0001), GpuMask(0b0111), (GpuMask(0b0011), GpuMask(0b1100)))
    [SocketUse(free=1, total=2)]
    """
    remaining = free & ~gpus
    return [
        SocketUse((remaining & socket).bit_count(), socket.bit_count())
        for socket in sockets
        if socket & gpus
    ]


def fragmentation_cost(used: Sequence[SocketUse], largest_socket: int) -> Cost:
    """Return the mean free part of the used sockets.

    In the best case all used sockets are full. In the worst case the job has one GPU of each of
    several sockets, which are the largest of the cluster and otherwise idle.
    """
    value = fmean(socket.free / socket.total for socket in used)
    return Cost(value, best=0.0, worst=(largest_socket - 1) / largest_socket)
