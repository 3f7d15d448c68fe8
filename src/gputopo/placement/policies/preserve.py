"""Preserve policy: the best links for sensitive jobs, which all other jobs keep free.

It is MAPA's algorithm 1: every set is scored by its best embedding, and a job that fits is always
placed. The authors' program differs: it compares several orders of one set, and a job waits if no
set has more than 12.34 GB/s, which is the value of equation 2 without any link.
"""

from gputopo.placement.feasible import FeasibleSets, SortKeys


def keys(feasible: FeasibleSets) -> SortKeys:
    """Return effective and preserved bandwidth for a sensitive job.

    For all other jobs, return preserved and aggregate bandwidth.
    """
    if feasible.request.sensitive:
        return feasible.effective_mb_per_s, feasible.preserved_mb_per_s
    return feasible.preserved_mb_per_s, feasible.aggregate_mb_per_s
