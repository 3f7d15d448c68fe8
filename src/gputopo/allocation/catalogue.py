"""The allocations by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.allocation.greedy import greedy
from gputopo.allocation.marginal import marginal
from gputopo.allocation.model import Allocation
from gputopo.allocation.proportional import proportional
from gputopo.allocation.tune import tune

ALLOCATIONS: Final[Mapping[str, Allocation]] = MappingProxyType(
    {"proportional": proportional, "greedy": greedy, "tune": tune, "marginal": marginal}
)
