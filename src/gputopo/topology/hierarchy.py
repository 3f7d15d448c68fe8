"""The PCIe tree of a node, derived from the common ancestors in its links."""

from collections.abc import Iterable
from typing import Final

from gputopo.topology.model import Ancestor, GpuMask, NodeTopology

LEVELS: Final = tuple(Ancestor)
"""All kinds of common ancestors, from the lowest to the highest level of the PCIe tree."""


def blocks(topology: NodeTopology, level: Ancestor) -> tuple[GpuMask, ...]:
    """Return the groups of GPUs whose common ancestor is at ``level`` or below in the PCIe tree.

    ``PIX`` gives the GPUs of each switch, ``PHB`` those of each host bridge, and ``NODE`` those of
    each NUMA node, which is usually a socket. Each GPU is in exactly one group. Groups are ordered
    by their lowest GPU. If A and B are in one group, and B and C are too, then A and C are in this
    group, even if their common ancestor is above ``level``.

    Example: GPUs 0 and 1 are at one switch, GPU 2 at another. ``PIX`` gives ``(0b011, 0b100)``.
    """
    near = LEVELS[: LEVELS.index(level) + 1]
    groups = [1 << gpu.index for gpu in topology.gpus]
    for link in topology.links:
        if link.ancestor in near:
            groups = _merged(groups, 1 << link.a | 1 << link.b)
    return tuple(GpuMask(group) for group in sorted(groups, key=lambda group: group & -group))


def _merged(groups: Iterable[int], pair: int) -> list[int]:
    merged, others = pair, []
    for group in groups:
        if group & pair:
            merged |= group
        else:
            others.append(group)
    return [*others, merged]
