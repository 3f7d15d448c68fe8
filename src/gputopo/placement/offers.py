"""Ranks nodes that are equally good for a pod's GPUs by the pod's share of CPUs. Pure functions.

gputopo divides the CPUs of a node among the pods that it sizes. So the number of free CPUs does not
show how many CPUs a sized pod gets. gputopo guarantees the pod a share in proportion to its GPUs.

Example: two nodes have the same links and the same free GPUs. The share of the pod is 8 CPUs on the
first node, and 4 CPUs on the second node, where pods that gputopo does not size request the other
CPUs. So the first node is better.
"""

from collections.abc import Mapping
from typing import Final

LEAST_PART: Final = 0.8
"""A share is clearly smaller than the largest share if it is below this part of the largest share.
Smaller differences do not count: a small system pod must not decide which GPUs a pod gets."""


def share_of_pod(milli_cpu: int, node_gpus: int, pod_gpus: int, most: int | None) -> int | None:
    """Return the share of a pod on a node, in thousandths of a CPU; None if it is unknown.

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
    """Return new ranks, from 0. If the shares of one rank differ clearly, split this rank in two.

    The second part has the nodes whose share is clearly smaller than the largest share of the rank.
    The first part has all other nodes of the rank, also nodes with an unknown share.

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
