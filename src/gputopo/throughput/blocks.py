"""Blocks: the steps of a few seconds. All statistics of a rate are computed on blocks.

A training loop sometimes pauses, for instance to write a checkpoint. A pause makes its block an
outlier. Outliers do not count, so a rate is the speed between pauses, which does not depend on how
many pauses a measurement has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

_OUTLIER_DEVIATIONS: Final = 3.5
"""Limit of the modified z-score (Iglewicz, Hoaglin: How to Detect and Handle Outliers, 1993)."""

_DEVIATION_PER_MAD: Final = 1.4826
"""Standard deviation of a normal distribution relative to its median absolute deviation."""

_OUTLIER_SHARE: Final = 0.02
"""A block whose time differs by less than this share of itself is never an outlier."""

_OUTLIER_STEPS: Final = 1.5
"""A block that differs by less than this number of steps is never an outlier."""

_MOST_OUTLIERS: Final = 0.25
"""If more blocks than this share are outliers, pauses are part of the training loop."""

_MOST_BATCHES: Final = 20


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive steps of one container.

    Attributes:
        segment: number of restarts and clock jumps of the sender before this block.
        began: the agent's monotonic clock when it received the count at the begin, in seconds.
        ended: likewise at the end.
        steps: at least 1.
        seconds: duration by the sender's clock, positive.
    """

    segment: int
    began: float
    ended: float
    steps: int
    seconds: float


def without_outliers(blocks: Sequence[Block]) -> list[Block] | None:
    """Return the blocks that are not outliers, None if more than a quarter of them are outliers.

    The time of an outlier differs from the median time for its steps by more than 3.5 standard
    deviations, by more than the time of 1.5 steps, and by more than 2 %. A count that the agent
    polls is up to one step wrong, so a difference of one step has no meaning. For example, a loop
    with 2.48 steps per second counts 12 or 13 steps in 5 s, and only both together have its rate.

    Example: ten blocks of 30 steps take 3 s each, with a standard deviation of 0.1 s. A checkpoint
    of 3 s in one of them is 30 standard deviations, so this block is an outlier.
    """
    per_step = median(block.seconds / block.steps for block in blocks)
    errors = [abs(block.seconds - per_step * block.steps) for block in blocks]
    limit = max(
        _OUTLIER_DEVIATIONS * _DEVIATION_PER_MAD * median(errors), _OUTLIER_STEPS * per_step
    )
    kept = [
        block
        for block, error in zip(blocks, errors, strict=True)
        if error <= max(limit, _OUTLIER_SHARE * block.seconds)
    ]
    return kept if len(blocks) - len(kept) <= _MOST_OUTLIERS * len(blocks) else None


def batches(blocks: Sequence[Block]) -> list[tuple[int, float]]:
    """Return the steps and seconds of at most 20 batches of consecutive blocks.

    Long batches depend less on each other than short ones. More than 8 to 10 batches make a
    confidence interval hardly narrower (Schmeiser: Batch Size Effects in the Analysis of Simulation
    Output, Operations Research 30(3), 1982).
    """
    size = -(-len(blocks) // _MOST_BATCHES)
    groups = [blocks[start : start + size] for start in range(0, len(blocks), size)]
    return [
        (sum(block.steps for block in group), sum(block.seconds for block in group))
        for group in groups
    ]
