"""The rules that choose among a node's free GPU sets: one file each, and their table."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from gputopo.placement.model import PolicyName
from gputopo.placement.options import Keys, Options
from gputopo.placement.policies import baseline, greedy, preserve, topo_aware


class Policy(Protocol):
    """What the sets on offer are chosen by."""

    def __call__(self, options: Options, /) -> Keys:
        """Return the keys, the most important first; the lowest set wins among equals."""


POLICIES: Final[Mapping[PolicyName, Policy]] = MappingProxyType(
    {
        PolicyName.BASELINE: baseline.keys,
        PolicyName.TOPO_AWARE: topo_aware.keys,
        PolicyName.GREEDY: greedy.keys,
        PolicyName.PRESERVE: preserve.keys,
    }
)
