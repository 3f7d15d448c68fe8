"""Utility policy: communication, interference and fragmentation together (Amaral et al., SC '17).

The policy scores each GPU set by equation 2 of the paper (:mod:`gputopo.utility`), with the best
embedding of the set. If sets have the same utility, the one with more effective bandwidth is
better, because path lengths do not distinguish one NVLink from two.
"""

from gputopo.placement.feasible import FeasibleSets, SortKeys


def keys(feasible: FeasibleSets) -> SortKeys:
    """Return the utility for the cluster, then the effective bandwidth."""
    return feasible.utilities.values, feasible.effective_mb_per_s
