"""The allocations by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.allocation.drf import drf
from gputopo.allocation.greedy import greedy
from gputopo.allocation.marginal import marginal
from gputopo.allocation.model import Allocation
from gputopo.allocation.opt import opt
from gputopo.allocation.proportional import proportional
from gputopo.allocation.tetris import tetris
from gputopo.allocation.tune import tune

ALLOCATIONS: Final[Mapping[str, Allocation]] = MappingProxyType(
    {
        "proportional": proportional,
        "greedy": greedy,
        "tune": tune,
        "marginal": marginal,
        "opt": opt,
        "drf": drf,
        "tetris": tetris,
    }
)
"""What each promises is said where it is defined; ``opt`` needs a solver."""

KEEP_SHARES: Final = frozenset({"proportional", "tune", "marginal", "opt"})
"""Those that let no job run slower than with the proportional share of its GPUs.

They also run every job whose turn it is; the others pass jobs over.
"""
