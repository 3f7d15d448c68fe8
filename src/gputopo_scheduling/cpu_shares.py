"""Compares nodes by the CPUs that gputopo guarantees to a sized pod on each of them.

It compares only nodes on which the placement of the GPUs is equally good.
"""

from collections.abc import Callable, Iterable, Mapping

from gputopo.api.annotations import AnnotationError
from gputopo.api.tuning import ResourcesMode, TuningRequest, parse_tuning_request
from gputopo.api.v1alpha1 import SizedCapacity
from gputopo.placement.offers import ranked_by_shares, share_of_pod
from gputopo.placement.score import score_of
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import Evaluation

CpuShares = Mapping[str, int]
"""Share of one pod by node, in thousandths of a CPU. Nodes with an unknown share are missing."""

CapacityOf = Callable[[str], SizedCapacity | None]
"""Returns a node's capacity for sized pods; None if its agent reports none."""


def cpu_shares(
    pod: PodView,
    gpus: int,
    nodes: Iterable[str],
    capacity_of: CapacityOf,
) -> CpuShares:
    """Return the share of the pod on each node; empty for a pod that gputopo does not size.

    ``gpus`` is the number of GPUs that the pod requests.
    """
    request = _request(pod)
    if request.mode is ResourcesMode.FIXED:
        return {}
    known = {node: found for node in nodes if (found := capacity_of(node)) is not None}
    shares = {
        node: share_of_pod(each.milli_cpu, each.gpus, gpus, request.most_milli_cpu)
        for node, each in known.items()
    }
    return {node: share for node, share in shares.items() if share is not None}


def ranks_by_share(found: Evaluation, shares: CpuShares, *, sensitive: bool) -> dict[str, int]:
    """Return the rank of each node that fits: by its GPUs, then by the share of the pod.

    Without shares the result is empty, and the functions below compare by the GPUs only. Shares of
    nodes that do not fit change nothing. For thousands of nodes this takes milliseconds, so a verb
    calls it once.
    """
    if not shares:
        return {}
    ranks = found.ranks(sensitive=sensitive)
    return ranked_by_shares(ranks, {node: shares[node] for node in shares if node in ranks})


def scores(found: Evaluation, ranks: Mapping[str, int], *, sensitive: bool) -> dict[str, int]:
    """Return a score of 0 to 10 for each node. A node that does not fit has 0.

    Args:
        found: the evaluation.
        ranks: the result of :func:`ranks_by_share`.
        sensitive: whether the pod is bandwidth-sensitive; used if there are no ranks.
    """
    if not ranks:
        return found.scores(sensitive=sensitive)
    return dict.fromkeys(found.nodes, 0) | {node: score_of(rank) for node, rank in ranks.items()}


def preferred(found: Evaluation, ranks: Mapping[str, int]) -> Evaluation:
    """Return the evaluation of the nodes that have rank 0 in :func:`ranks_by_share`."""
    if not ranks:
        return found
    return found.only([ranks.get(node) == 0 for node in found.nodes])


def best_by_share(
    found: Evaluation, pod: PodView, gpus: int, capacity_of: CapacityOf, *, sensitive: bool
) -> tuple[Evaluation, dict[str, int]]:
    """Return the nodes among which to choose one for a pod, and the ranks of the best nodes.

    For a sized pod these are the nodes with the best placement of the GPUs on which its share is
    not clearly smaller than on others. For other pods they are all nodes, and there are no ranks.
    Thousands of nodes cost little, because shares are computed for the best nodes only.
    """
    if _request(pod).mode is ResourcesMode.FIXED:
        return found, {}
    best = found.best(sensitive=sensitive)
    shares = cpu_shares(pod, gpus, best.nodes, capacity_of)
    ranks = ranks_by_share(best, shares, sensitive=sensitive)
    return (preferred(best, ranks) if ranks else found), ranks


def _request(pod: PodView) -> TuningRequest:
    """Parse the annotations. If they are invalid, the operator reports this; ignore them here."""
    try:
        return parse_tuning_request(pod.annotations)
    except AnnotationError:
        return TuningRequest()
