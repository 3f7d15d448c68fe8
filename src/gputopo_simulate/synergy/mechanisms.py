"""The allocations by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.sizing.marginal import marginal
from gputopo.sizing.model import Allocation
from gputopo.sizing.proportional import proportional
from gputopo.sizing.tune import tune
from gputopo_simulate.synergy.comparison.drf import drf
from gputopo_simulate.synergy.comparison.greedy import greedy
from gputopo_simulate.synergy.comparison.opt import opt
from gputopo_simulate.synergy.comparison.tetris import tetris

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
