"""The placement policies by name. Each policy is a module of this package."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from gputopo.placement.feasible import FeasibleSets, SortKeys
from gputopo.placement.model import PolicyName
from gputopo.placement.policies import baseline, greedy, preserve, topo_aware, utility, weakest


class Policy(Protocol):
    """A function that ranks the feasible sets of one request by sort keys."""

    def __call__(self, feasible: FeasibleSets, /) -> SortKeys:
        """Return the sort keys. If sets have equal keys, the set with the lowest GPUs is chosen."""


POLICIES: Final[Mapping[PolicyName, Policy]] = MappingProxyType(
    {
        PolicyName.BASELINE: baseline.keys,
        PolicyName.TOPO_AWARE: topo_aware.keys,
        PolicyName.GREEDY: greedy.keys,
        PolicyName.PRESERVE: preserve.keys,
        PolicyName.UTILITY: utility.keys,
        PolicyName.WEAKEST: weakest.keys,
    }
)
