"""Baseline policy: the free GPUs with the lowest indices, regardless of links (MAPA, section 4)."""

from gputopo.placement.feasible import FeasibleSets, SortKeys


def keys(_feasible: FeasibleSets) -> SortKeys:
    """Return no key. So all sets are equal, and the one with the lowest GPUs is chosen."""
    return ()
