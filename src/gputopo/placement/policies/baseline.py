"""Baseline: the free GPUs of the lowest indices, whatever links them (MAPA, section 4)."""

from gputopo.placement.options import Keys, Options


def keys(_options: Options) -> Keys:
    """Return no key: all sets are equal, so that the lowest is taken."""
    return ()
