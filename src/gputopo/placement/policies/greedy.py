"""Greedy: the most aggregate bandwidth for this job, sensitive or not (MAPA, section 4)."""

from gputopo.placement.options import Keys, Options


def keys(options: Options) -> Keys:
    """Return the aggregate bandwidth of each set's best embedding."""
    return (options.aggregate_mb_per_s,)
