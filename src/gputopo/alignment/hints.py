"""The hints that kubelet's managers of devices and CPUs give for a request.

A set of NUMA nodes is a hint if its free amount is large enough. It is preferred if it has as few
nodes as the total amounts allow: this depends on the hardware and not on what is free.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from gputopo.alignment.model import (
    MAX_NODES,
    AlignmentError,
    NodeAmounts,
    NumaHint,
    numa_mask,
)


def amount_hints(request: int, amounts: NodeAmounts) -> list[NumaHint]:
    """Return the hints for devices or exclusive CPUs; none if they do not fit.

    For example, two NUMA nodes have 4 GPUs each, and node 0 has 1 free GPU. A request for 3 has the
    hints {1}, preferred, and {0, 1}, not preferred. A request for 5 fits only on {0, 1}. This hint
    is preferred, because one node never has 5 GPUs.

    The CPU manager's option ``align-by-socket`` has other hints. The agent does not predict a
    kubelet with this option.

    Args:
        request: number of devices or CPUs, at least 1.
        amounts: by NUMA node. For devices, only the nodes that have devices of the resource. Before
            Kubernetes 1.36, kubelet also counted the other nodes of the machine.
    """
    fewest = len(amounts.total)
    fitting = []
    for nodes in _node_sets(amounts.total):
        if _sum(amounts.total, nodes) >= request:
            fewest = min(fewest, len(nodes))
        if _sum(amounts.free, nodes) >= request:
            fitting.append(nodes)
    return [NumaHint(numa_mask(nodes), len(nodes) == fewest) for nodes in fitting]


def _node_sets(total: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    if len(total) > MAX_NODES:
        raise AlignmentError(f"total: {len(total)} NUMA nodes are more than {MAX_NODES}")
    nodes = sorted(total)
    for size in range(1, len(nodes) + 1):
        yield from combinations(nodes, size)


def _sum(amounts: Mapping[int, int], nodes: Sequence[int]) -> int:
    return sum(amounts.get(node, 0) for node in nodes)
