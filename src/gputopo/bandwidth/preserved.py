"""Compute the preserved bandwidth of free GPUs (MAPA paper, equation 3)."""

import numpy as np
from numpy.typing import NDArray

from gputopo.patterns.graph import link_weights
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.topology.tables import cached_by_fingerprint


def preserved_mb_per_s(topology: NodeTopology, free: GpuMask) -> int:
    """Return the sum of the bandwidths of all links, PCIe included, between the free GPUs."""
    return sum(
        link.bandwidth_mb_per_s
        for link in topology.links
        if free >> link.a & 1 and free >> link.b & 1
    )


@cached_by_fingerprint
def preserved_table(topology: NodeTopology) -> NDArray[np.int64]:
    """Return :func:`preserved_mb_per_s` of every GPU set. The index is the set's mask of positions.

    The function adds one GPU after another, and each GPU doubles the table. A set with the new GPU
    has the bandwidth of the set without it, plus the bandwidth of the links between the new GPU and
    the other GPUs of the set.
    """
    totals = np.zeros(1, dtype=np.int64)
    for row in link_weights(topology):
        added = np.zeros(1, dtype=np.int64)
        for bandwidth in row[: len(totals).bit_length() - 1]:
            added = np.concatenate([added, added + bandwidth])
        totals = np.concatenate([totals, totals + added])
    totals.setflags(write=False)
    return totals
