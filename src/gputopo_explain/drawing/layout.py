"""Place the GPUs of a node in its picture: on an ellipse, socket by socket."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from typing import Final

from gputopo.topology.hierarchy import blocks
from gputopo.topology.model import Ancestor, GpuIndex, GpuMask, NodeTopology, indices_of

GPU_RADIUS: Final = 25
_SOCKET_MARGIN: Final = 20
_SWITCH_MARGIN: Final = 9
_SPACING: Final = 92  # pixels between neighbours on the ellipse
_GAP: Final = 0.9  # gap between two sockets of one side, as a multiple of the spacing


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Geometry of a picture, in pixels from its centre.

    Attributes:
        points: centre of each GPU. No three centres are on one line, so no link crosses a GPU.
        sockets: boxes around the GPUs of each socket.
        switches: boxes around the GPUs of each PCIe switch with several, but not all, GPUs.
    """

    points: Mapping[GpuIndex, tuple[float, float]]
    sockets: tuple[Box, ...]
    switches: tuple[Box, ...]

    @property
    def bounds(self) -> Box:
        """The smallest rectangle around all GPUs and boxes."""
        return _hull(
            [corner for box in self.sockets for corner in _corners(box)], _SOCKET_MARGIN / 2
        )


def lay_out(topology: NodeTopology) -> Layout:
    """Return the geometry of a node's picture.

    The first half of the sockets is on the left side, the second half on the right, both from
    top to bottom. A node with one socket fills both sides.
    """
    sockets = blocks(topology, Ancestor.NODE)
    if len(sockets) == len(topology.gpus):  # each socket has one GPU: draw one box
        sockets = (topology.mask,)
    switches = blocks(topology, Ancestor.PXB)
    points = dict(_points(_sides(sockets, switches)))
    shared = [one for one in switches if one.bit_count() > 1 and one not in sockets]
    return Layout(
        points,
        tuple(_box(socket, points, _SOCKET_MARGIN) for socket in sockets),
        tuple(_box(switch, points, _SWITCH_MARGIN) for switch in shared),
    )


_Side = Sequence[Sequence[GpuIndex]]  # the GPUs of each socket, from top to bottom


def _sides(sockets: Sequence[GpuMask], switches: Sequence[GpuMask]) -> tuple[_Side, _Side]:
    ordered = [
        [gpu for switch in switches for gpu in indices_of(GpuMask(switch & socket))]
        for socket in sockets
    ]
    if len(ordered) == 1:
        half = (len(ordered[0]) + 1) // 2
        return [ordered[0][:half]], [ordered[0][half:]]
    half = (len(ordered) + 1) // 2
    return ordered[:half], ordered[half:]


def _points(sides: tuple[_Side, _Side]) -> Iterator[tuple[GpuIndex, tuple[float, float]]]:
    # With 4 GPUs on each side, the angles are 1/8, 3/8, 5/8 and 7/8 of half a turn.
    places = max(sum(map(len, side)) + _GAP * (len(side) - 1) for side in sides)
    across = max(2.0, places) * _SPACING / pi * 1.25
    down = max(1.0, places) * _SPACING / pi * 1.05
    for side, sign in zip(sides, (-1, 1), strict=True):
        used = sum(map(len, side)) + _GAP * (len(side) - 1)
        place = (places - used) / 2 + 0.5
        for socket in side:
            for gpu in socket:
                angle = pi * (place / places)
                yield gpu, (sign * (across * sin(angle) + _SPACING * 0.3), -down * cos(angle))
                place += 1
            place += _GAP


def _box(gpus: GpuMask, points: Mapping[GpuIndex, tuple[float, float]], margin: float) -> Box:
    return _hull([points[gpu] for gpu in indices_of(gpus)], GPU_RADIUS + margin)


def _hull(points: Iterable[tuple[float, float]], margin: float) -> Box:
    across, down = zip(*points, strict=True)
    return Box(min(across) - margin, min(down) - margin, max(across) + margin, max(down) + margin)


def _corners(box: Box) -> tuple[tuple[float, float], tuple[float, float]]:
    return (box.left, box.top), (box.right, box.bottom)
