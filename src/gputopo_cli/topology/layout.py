"""Where the GPUs of a node stand in its picture: on an ellipse, socket by socket."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from typing import Final

from gputopo.topology.hierarchy import blocks
from gputopo.topology.model import Ancestor, GpuIndex, GpuMask, NodeTopology, indices_of

GPU_RADIUS: Final = 25
_SOCKET_MARGIN: Final = 20
_SWITCH_MARGIN: Final = 9
_SPACING: Final = 92
"""Between neighbours on the ellipse."""
_GAP: Final = 0.9
"""Between two sockets of one side, in places of a GPU."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture's geometry, in pixels from its middle.

    Attributes:
        points: middle of each GPU. No three stand in line, so that no link crosses a GPU.
        sockets: around the GPUs of each.
        switches: around the GPUs of each PCIe switch that has several, but not all.
    """

    points: Mapping[GpuIndex, tuple[float, float]]
    sockets: tuple[Box, ...]
    switches: tuple[Box, ...]

    @property
    def around(self) -> Box:
        """The least rectangle around everything."""
        return _hull(
            [corner for box in self.sockets for corner in _corners(box)], _SOCKET_MARGIN / 2
        )


def layout(topology: NodeTopology) -> Layout:
    """Return where to draw what.

    The first half of the sockets stands on the left side, the second on the right, both from
    top to bottom; a node of one socket fills both sides.
    """
    sockets = blocks(topology, Ancestor.NODE)
    if len(sockets) == len(topology.gpus):  # every GPU its own: one box around all says more
        sockets = (topology.mask,)
    switches = blocks(topology, Ancestor.PXB)
    points = dict(_points(_sides(sockets, switches)))
    shared = [one for one in switches if one.bit_count() > 1 and one not in sockets]
    return Layout(
        points,
        tuple(_box(socket, points, _SOCKET_MARGIN) for socket in sockets),
        tuple(_box(switch, points, _SWITCH_MARGIN) for switch in shared),
    )


_Side = Sequence[Sequence[GpuIndex]]
"""The GPUs of each socket of one side, from top to bottom."""


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
