"""Baseline: the free GPUs of the lowest indices, whatever links them (MAPA, section 4)."""

from gputopo.placement.options import Options
from gputopo.topology.model import GpuMask


def choose(options: Options) -> GpuMask:
    """Return the lowest set."""
    return next(options.sets())
