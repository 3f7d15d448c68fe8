"""Weakest policy: the least effective bandwidth, to measure a workload on slow links."""

from gputopo.placement.feasible import FeasibleSets, SortKeys


def keys(feasible: FeasibleSets) -> SortKeys:
    """Return the negated effective bandwidth by the physical model.

    Equation 2 is not used, because it is not monotone: it ranks some sets with NVLinks below sets
    without NVLinks.
    """
    return (-feasible.common_mb_per_s,)
