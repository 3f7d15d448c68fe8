"""Baseline policy: the free GPUs with the lowest indices; links do not count (MAPA, section 4)."""

from gputopo.placement.feasible import FeasibleSets, SortKeys


def keys(_feasible: FeasibleSets) -> SortKeys:
    """Return no sort keys: all sets are equal, so the set with the lowest GPUs is chosen."""
    return ()
