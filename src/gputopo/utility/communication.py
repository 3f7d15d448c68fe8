"""Length of the paths between the GPUs of a job (section 4.1.2 and equation 3 of the paper).

The physical graph has the levels network, machine, socket, switch and GPU. An edge to a higher
level is longer, so a path is as long as the levels that it passes. Lengths are qualitative: they
rank placements, and are no times.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final, TypeVar

from gputopo.patterns.model import Pattern
from gputopo.topology.hierarchy import blocks
from gputopo.topology.keys import FingerprintKey
from gputopo.topology.model import Ancestor, GpuIndex, GpuMask, LinkKind, NodeTopology
from gputopo.utility.cost import Cost, UtilityError

_Place = TypeVar("_Place")


@dataclass(frozen=True, slots=True)
class LevelLengths:
    """Length of an edge of the physical graph, by the level of its lower end.

    ``gpu`` is also the length of an NVLink between two GPUs. ``gpu`` and ``socket`` are those of
    figure 7 of the paper, which has no numbers for the other two levels.

    Raises:
        UtilityError: if a length is below 1, or a higher level is not longer.
    """

    gpu: int = 1
    switch: int = 5
    socket: int = 20
    machine: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.gpu < self.switch < self.socket < self.machine:
            raise UtilityError(
                f"lengths: {self.gpu}, {self.switch}, {self.socket}, {self.machine}; each level"
                " must be longer than the one below, and the first at least 1"
            )


DEFAULT_LENGTHS: Final = LevelLengths()

_CACHED_SOCKETS: Final = 1024

GpuDistances = Mapping[tuple[GpuIndex, GpuIndex], int]
"""Length of the shortest path between two GPUs of a node; ``(a, b)`` and ``(b, a)`` are keys."""


def sockets(topology: NodeTopology) -> tuple[GpuMask, ...]:
    """Return the GPUs of each socket (NUMA node), ordered by their lowest GPU."""
    return _sockets(FingerprintKey(topology))


def sockets_of(gpus: GpuMask, of_node: Iterable[GpuMask]) -> GpuMask:
    """Return all GPUs of the sockets that ``gpus`` uses; ``of_node`` are the sockets of the node.

    >>> bin(sockets_of(GpuMask(0b0001), (GpuMask(0b0011), GpuMask(0b1100))))
    '0b11'
    """
    return GpuMask(sum(socket for socket in of_node if socket & gpus))


@lru_cache(_CACHED_SOCKETS)
def _sockets(key: FingerprintKey) -> tuple[GpuMask, ...]:
    return blocks(key.topology, Ancestor.NODE)


def switches(topology: NodeTopology) -> tuple[GpuMask, ...]:
    """Return the GPUs of each PCIe switch that has at least two GPUs."""
    return tuple(block for block in blocks(topology, Ancestor.PXB) if block.bit_count() > 1)


def gpu_distances(
    topology: NodeTopology, lengths: LevelLengths = DEFAULT_LENGTHS
) -> dict[tuple[GpuIndex, GpuIndex], int]:
    """Return the length of the shortest path between each pair of GPUs of a node.

    A path does not pass through a third GPU, because GPUs do not forward data of others. For
    example, two GPUs of a socket without NVLink and without a switch have the distance 2, and two
    GPUs of different sockets have 1 + 20 + 20 + 1 = 42.
    """
    same_switch, same_socket = _pairs(switches(topology)), _pairs(sockets(topology))
    below = {
        gpu.index: lengths.gpu + lengths.switch * (gpu.index in _members(switches(topology)))
        for gpu in topology.gpus
    }
    found: dict[tuple[GpuIndex, GpuIndex], int] = {}
    for link in topology.links:
        pair = (link.a, link.b)
        if link.kind is LinkKind.NVLINK:
            distance = lengths.gpu
        elif link.kind is LinkKind.NVSWITCH or pair in same_switch:
            distance = 2 * lengths.gpu
        else:
            distance = below[link.a] + below[link.b]
            distance += 0 if pair in same_socket else 2 * lengths.socket
        found[pair] = found[link.b, link.a] = distance
    return found


def distance_to_network(
    topology: NodeTopology, lengths: LevelLengths = DEFAULT_LENGTHS
) -> dict[GpuIndex, int]:
    """Return the length of the path from each GPU to the network between machines."""
    behind_switch = _members(switches(topology))
    above = lengths.socket + lengths.machine
    return {
        gpu.index: lengths.gpu + lengths.switch * (gpu.index in behind_switch) + above
        for gpu in topology.gpus
    }


def path_length(
    pattern: Pattern, gpus: Callable[[int], _Place], distance: Callable[[_Place, _Place], int]
) -> int:
    """Return the sum of the weighted distances between the GPUs of communicating ranks.

    This is equation 3 with the weights of the job graph. ``gpus`` returns the GPU of a rank.
    """
    return sum(edge.weight * distance(gpus(edge.a), gpus(edge.b)) for edge in pattern.edges)


def communication_cost(pattern: Pattern, length: int, best: int, longest: int) -> Cost:
    """Return the communication cost of a placement.

    Args:
        pattern: the job graph.
        length: the weighted path length of the placement, see :func:`path_length`.
        best: least path length of this job on idle hardware.
        longest: longest distance that two GPUs of the job can have. In the worst case all edges
            have it.
    """
    worst = longest * sum(edge.weight for edge in pattern.edges)
    return Cost(value=length, best=min(best, worst), worst=worst)


def _members(groups: tuple[GpuMask, ...]) -> set[int]:
    return {bit for group in groups for bit in range(group.bit_length()) if group >> bit & 1}


def _pairs(groups: tuple[GpuMask, ...]) -> set[tuple[int, int]]:
    return {pair for group in groups for pair in combinations(sorted(_members((group,))), 2)}
