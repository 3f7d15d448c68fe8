"""Ranks nodes of equal rank by the CPUs that they can offer to a pod. Pure functions.

gputopo divides the CPUs of a node among the pods that it sizes. So free CPUs do not show what such
a pod gets. It is guaranteed the share of its GPUs.

Example: two nodes have the same links and the same free GPUs. One of them guarantees 8 CPUs to the
pod, the other one 4 CPUs, because pods that gputopo does not size request the rest. The first node
is better.
"""

from collections.abc import Mapping
from typing import Final

LEAST_PART: Final = 0.8
"""A share is clearly smaller than another one if it is below this part of it. Smaller differences
do not matter: otherwise a system pod on a node would decide which GPUs a pod gets."""


def share_of_pod(milli_cpu: int, node_gpus: int, pod_gpus: int, most: int | None) -> int | None:
    """Return the CPUs that a node guarantees to a pod, in thousandths; None if they are unknown.

    Args:
        milli_cpu: CPUs that the node has for pods which gputopo sizes.
        node_gpus: GPUs of the node for these pods; 0 if the node does not report its GPUs now.
        pod_gpus: GPUs of the pod.
        most: most CPUs that the pod may get; None if the user has not set it.
    """
    if node_gpus < pod_gpus:
        return None
    share = milli_cpu * pod_gpus // node_gpus
    return share if most is None else min(share, most)


def ranked_by_shares(ranks: Mapping[str, int], shares: Mapping[str, int]) -> dict[str, int]:
    """Return the rank of each node, from 0, with two ranks in place of one where shares differ.

    Of the nodes of one rank, those come first whose share is not clearly smaller than the largest
    of this rank. A node whose share is unknown comes first, too.

    >>> ranked_by_shares({"a": 0, "b": 0, "c": 1}, {"a": 8000, "b": 4000, "c": 9000})
    {'a': 0, 'b': 1, 'c': 2}
    """
    largest: dict[int, int] = {}
    for node, share in shares.items():
        rank = ranks[node]
        largest[rank] = max(share, largest.get(rank, 0))
    pairs = {
        node: (rank, node in shares and shares[node] < LEAST_PART * largest[rank])
        for node, rank in ranks.items()
    }
    position = {pair: index for index, pair in enumerate(sorted(set(pairs.values())))}
    return {node: position[pair] for node, pair in pairs.items()}
