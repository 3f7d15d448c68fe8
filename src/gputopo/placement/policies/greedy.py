"""Greedy: the most aggregate bandwidth for this job, sensitive or not (MAPA, section 4)."""

from gputopo.placement.options import Options
from gputopo.topology.model import GpuMask


def choose(options: Options) -> GpuMask:
    """Return the set whose best embedding has the highest aggregate bandwidth."""
    return max(options.sets(), key=lambda gpus: options.embedding(gpus).aggregate_mb_per_s)
