"""Find the best placement of a job by comparing all of them, where there are few."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from gputopo.mapping.evaluate import PlacementEvaluation
from gputopo.mapping.model import ClusterGpu
from gputopo.mapping.orders import shortest_order


def best_placement(
    evaluation: PlacementEvaluation, gpus: Sequence[ClusterGpu], ranks: Mapping[str, int]
) -> tuple[ClusterGpu, ...]:
    """Return the placement with the highest utility; of several, the first.

    Args:
        evaluation: evaluates the placements of the job.
        gpus: free GPUs of the nodes, in the order of preference.
        ranks: most ranks that each node can take; at least one placement is possible.
    """
    best: tuple[ClusterGpu, ...] = ()
    highest = 0.0
    for chosen in combinations(gpus, evaluation.job.pattern.size):
        if not _is_within(chosen, ranks):
            continue
        ideal = evaluation.utility_with(frozenset(chosen), evaluation.scale.best_length)
        if ideal <= highest:
            continue
        order, length = shortest_order(evaluation.job.pattern, chosen, evaluation.distance)
        value = evaluation.utility_with(frozenset(chosen), length)
        if value > highest:
            best, highest = order, value
    return best


def _is_within(gpus: Sequence[ClusterGpu], ranks: Mapping[str, int]) -> bool:
    used = Counter(gpu.node for gpu in gpus)
    return all(count <= ranks[node] for node, count in used.items())
