"""The rules that choose among a node's free GPU sets: one file each, and their table."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from gputopo.api.enums import PolicyName
from gputopo.placement.options import Options
from gputopo.placement.policies import baseline, greedy, preserve
from gputopo.topology.model import GpuMask


class Policy(Protocol):
    """Choose one of the sets on offer; the lowest indices among equals."""

    def __call__(self, options: Options) -> GpuMask:
        """Return the chosen set."""


POLICIES: Final[Mapping[PolicyName, Policy]] = MappingProxyType(
    {
        PolicyName.BASELINE: baseline.choose,
        PolicyName.GREEDY: greedy.choose,
        PolicyName.PRESERVE: preserve.choose,
    }
)
