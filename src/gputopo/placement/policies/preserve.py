"""Preserve policy: bandwidth-sensitive jobs get the best links, other jobs avoid these links.

It is MAPA's algorithm 1. Each set is scored by its best embedding, and a job that fits is always
placed. The authors' program differs in two points. First, the program compares several orders of
each set. Second, a job waits in the program if no set has more than 12.34 GB/s, which equation 2
gives for a set without links.
"""

from gputopo.placement.feasible import FeasibleSets, SortKeys


def keys(feasible: FeasibleSets) -> SortKeys:
    """Return effective bandwidth, then preserved bandwidth, as keys of a sensitive job.

    For all other jobs, return preserved bandwidth, then aggregate bandwidth.
    """
    if feasible.request.sensitive:
        return feasible.effective_mb_per_s, feasible.preserved_mb_per_s
    return feasible.preserved_mb_per_s, feasible.aggregate_mb_per_s
