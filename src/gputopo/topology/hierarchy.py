"""The PCIe tree of a node, as far as its links tell it: which GPUs meet where."""

from collections.abc import Iterable
from typing import Final

from gputopo.topology.model import Ancestor, GpuMask, NodeTopology

LEVELS: Final = tuple(Ancestor)
"""From the nearest common ancestor to the farthest."""


def blocks(topology: NodeTopology, level: Ancestor) -> tuple[GpuMask, ...]:
    """Return the GPUs that meet at ``level`` or nearer, block by block, lowest GPU first.

    ``NODE`` gives the sockets, ``PHB`` the host bridges, ``PIX`` the switches. Every GPU is
    in one block, alone where nothing is that near; meeting is taken to be transitive.
    """
    near = LEVELS[: LEVELS.index(level) + 1]
    found = [1 << gpu.index for gpu in topology.gpus]
    for link in topology.links:
        if link.ancestor in near:
            found = _joined(found, 1 << link.a | 1 << link.b)
    return tuple(GpuMask(block) for block in sorted(found, key=lambda block: block & -block))


def _joined(found: Iterable[int], pair: int) -> list[int]:
    touched, apart = pair, []
    for block in found:
        if block & pair:
            touched |= block
        else:
            apart.append(block)
    return [*apart, touched]
