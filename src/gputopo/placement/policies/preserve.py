"""Preserve policy: bandwidth-sensitive jobs get the best links, other jobs avoid these links.

This is MAPA's algorithm 1. The policy scores each GPU set by its best embedding, and always places
a job that fits. The authors' program differs in two points. The program compares several rank
orders of each set. And in the program, a job waits if no set has more than 12.34 GB/s, which is the
value of equation 2 for a set without links.
"""

from gputopo.placement.feasible import FeasibleSets, SortKeys


def keys(feasible: FeasibleSets) -> SortKeys:
    """Return the sort keys of a sensitive job: effective bandwidth, then preserved bandwidth.

    For all other jobs, the keys are preserved bandwidth, then aggregate bandwidth.
    """
    if feasible.request.sensitive:
        return feasible.effective_mb_per_s, feasible.preserved_mb_per_s
    return feasible.preserved_mb_per_s, feasible.aggregate_mb_per_s
