"""Chooses among the nodes of an evaluation: best score first, then MostAllocated."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import compress

from gputopo_cluster.usage import NodeState
from gputopo_scheduling.evaluation import Evaluation, SurroundedState


def best_nodes(
    found: Evaluation,
    size: int,
    in_flight: Mapping[str, int],
    *,
    sensitive: bool,
    without: AbstractSet[str] = frozenset(),
    shares: bool = False,
) -> list[str]:
    """Return the best nodes for a pod of ``size`` GPUs, ``sensitive`` to bandwidth or not.

    Of the nodes with the highest score, return those with the highest percentage of used GPUs, as
    kube-scheduler's MostAllocated does. The GPUs of this pod count as used. Return no node if pods
    in flight leave too few GPUs on every node that fits.

    Args:
        found: the evaluation of the pod.
        size: number of GPUs of the pod.
        in_flight: for each node, the number of GPUs of other pods that are between filter and bind.
            These GPUs count as used too.
        sensitive: whether the pod is sensitive to bandwidth.
        without: nodes to leave out.
        shares: whether the pod requests a share. Pods in flight may use shares of the same GPU.
    """
    key_of = found.keys_of(in_flight.keys() | without)
    counted = {node: gpus for node, gpus in in_flight.items() if node in key_of}
    out = {node for node in without if node in key_of}
    if not shares:
        out |= {node for node, gpus in counted.items() if gpus > _spare(key_of[node], size)}
    in_use = _best_keys(found, size, [key_of[node] for node in out], sensitive=sensitive)
    fuller = {
        node: _part_in_use(key_of[node], size + gpus)
        for node, gpus in counted.items()
        if node not in out and key_of[node] in in_use
    }
    most = max(in_use.values(), default=0.0)
    if fuller and (still_more := max(fuller.values())) >= most:
        return [node for node, part in fuller.items() if part == still_more]
    fullest = {key for key, part in in_use.items() if part == most}
    chosen = compress(found.nodes, map(fullest.__contains__, found.keys))
    return [node for node in chosen if node not in out] if out else list(chosen)


def _best_keys(
    found: Evaluation, size: int, out: Iterable[Hashable], *, sensitive: bool
) -> dict[Hashable, float]:
    """Return the used fraction of GPUs of each key with the best rank that has a node left.

    ``out`` has the key of each node that is left out.
    """
    ranks = found.ranks_by_key(sensitive=sensitive)
    counts = Counter(out).items()
    if gone := {key for key, count in counts if count == found.nodes_of_key[key]}:
        ranks = {key: rank for key, rank in ranks.items() if key not in gone}
    top = min(ranks.values(), default=0)
    return {key: _part_in_use(key, size) for key, rank in ranks.items() if rank == top}


def _part_in_use(key: Hashable, more: int) -> float:
    """Return the used fraction of healthy GPUs, as if ``more`` further GPUs were used."""
    if isinstance(key, SurroundedState):
        key = key.state
    if not isinstance(key, NodeState):
        return 0.0
    healthy = key.healthy.bit_count()
    return (healthy - key.free.bit_count() + key.unknown + more) / healthy


def _spare(key: Hashable, size: int) -> float:
    """Return how many further GPUs can be used on the node beside a pod of ``size`` GPUs."""
    if isinstance(key, SurroundedState):
        key = key.state
    if not isinstance(key, NodeState):
        return math.inf
    return key.usable(key.free).bit_count() - key.unknown - size
