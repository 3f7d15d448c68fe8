"""Greedy policy: the highest aggregate bandwidth for every job (MAPA paper, section 4)."""

from gputopo.placement.feasible import FeasibleSets, SortKeys


def keys(feasible: FeasibleSets) -> SortKeys:
    """Return the aggregate bandwidth of each set's best embedding."""
    return (feasible.aggregate_mb_per_s,)
