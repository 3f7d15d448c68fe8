"""A name for the structure of a node topology, shared by all nodes built alike."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputopo.topology.model import NodeTopology


def fingerprint(topology: NodeTopology) -> str:
    """Return 32 hexadecimal digits that are equal exactly for equal structure.

    Structure is the set of GPU indices and what links them. UUIDs, bus ids, minor
    numbers, models, memory and NUMA nodes do not count, nor does the order in which
    GPUs and links are listed. The value is the same in every process and release.
    ``NodeTopology.fingerprint`` keeps it.
    """
    indices = sorted(gpu.index for gpu in topology.gpus)
    links = sorted(
        f"{link.a}-{link.b} {link.kind} {link.version} {link.count}"
        f" {link.ancestor} {link.bandwidth_mb_per_s}"
        for link in topology.links
    )
    text = "\n".join([" ".join(map(str, indices)), *links])
    return sha256(text.encode()).hexdigest()[:32]
