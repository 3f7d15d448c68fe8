"""How long the agent needs for a sample after a resize, which is the time of one CPU limit.

The agent may notice the resize 10 s late. It drops the step in progress, the steps of the warm-up
of 30 s, and the newest steps of the last 10 s. Between these, it needs 10 blocks of at least one
step, and publishes the sample up to 30 s later. With steps of 20 s, a sample needs up to 340 s.
"""

from math import ceil
from typing import Final

from gputopo.throughput.interval import MIN_BLOCKS
from gputopo.throughput.phases import DEFAULT_RULES

POINT_SECONDS: Final = 300
"""Time for which one CPU limit is measured at least. If the pod reaches no steady rate in this time
or in the time that slow steps need, its rate with this limit is stored as 0."""

MIN_POINT_SECONDS: Final = 60
"""If less time is left, the operator does not begin to measure another CPU limit."""

_PUBLISH_SECONDS: Final = 30
"""Longest time until the agent has published a sample (chart value ``publishSeconds``)."""

_STEPS: Final = MIN_BLOCKS + 3
"""Steps until a sample, if each block has one step: one in progress at the resize, one that begins
in the warm-up, those of the blocks, and one that the agent drops at the end."""

_SLOWER: Final = 2
"""With fewer CPUs, steps are slower, and the agent may need a second attempt."""

_FIXED_SECONDS: Final = (
    DEFAULT_RULES.warm_up_seconds + 2 * DEFAULT_RULES.guard_seconds + _PUBLISH_SECONDS
)


def needed_seconds(step_seconds: float) -> int:
    """Return the time that must be left to begin with another CPU limit.

    Args:
        step_seconds: time of a training step with the original CPUs; 0 if it is unknown.
    """
    of_steps = _STEPS * step_seconds
    if of_steps <= DEFAULT_RULES.sample_seconds:
        return MIN_POINT_SECONDS
    return ceil(_FIXED_SECONDS + of_steps)


def longest_seconds(step_seconds: float) -> int:
    """Return the time after which the operator no longer waits for a sample with a CPU limit.

    Args:
        step_seconds: time of a training step with the original CPUs; 0 if it is unknown.
    """
    return max(POINT_SECONDS, ceil(_FIXED_SECONDS + _SLOWER * _STEPS * step_seconds))
