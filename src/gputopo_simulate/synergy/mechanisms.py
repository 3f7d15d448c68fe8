"""All sizing mechanisms by name: those of :mod:`gputopo.sizing`, and those of other authors."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.sizing.marginal import marginal
from gputopo.sizing.model import SizingMechanism
from gputopo.sizing.proportional import proportional
from gputopo.sizing.tune import tune
from gputopo_simulate.synergy.comparison.drf import drf
from gputopo_simulate.synergy.comparison.greedy import greedy
from gputopo_simulate.synergy.comparison.opt import opt
from gputopo_simulate.synergy.comparison.tetris import tetris

MECHANISMS: Final[Mapping[str, SizingMechanism]] = MappingProxyType(
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
"""The docstring of each function states its guarantees. ``opt`` needs the solver HiGHS."""

GUARANTEE_SHARES: Final = frozenset({"proportional", "tune", "marginal", "opt"})
"""Mechanisms that make no job slower than its proportional share.

They also run every job that :func:`gputopo.sizing.requests.runnable` returns. The other mechanisms
may pass over such a job.
"""
