"""Groups training steps into blocks of a few seconds, from which rates are computed.

A training loop sometimes pauses, for instance to write a checkpoint. The block with the pause is an
outlier and does not count. So a rate is the speed between pauses, and does not depend on the number
of pauses in a measurement.
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
"""A block whose time differs from the expected time by less than this fraction is no outlier."""

_OUTLIER_STEPS: Final = 1.5
"""A block that is early or late by less than the time of this number of steps is no outlier."""

_MOST_OUTLIERS: Final = 0.25
"""If a larger fraction of the blocks are outliers, pauses are part of the training loop."""

_MOST_BATCHES: Final = 20


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive steps of one container.

    Attributes:
        segment: number of the segment, from 0. A restart of the sender or a jump of its clock
            begins a new segment.
        began: time when the agent received the count of steps at the begin of the block, in seconds
            of the agent's monotonic clock.
        ended: time when the agent received the count of steps at the end of the block.
        steps: number of steps, at least 1.
        seconds: duration by the clock of the sender (the training process), positive.
    """

    segment: int
    began: float
    ended: float
    steps: int
    seconds: float


def without_outliers(blocks: Sequence[Block]) -> list[Block] | None:
    """Return the blocks without outliers, or None if more than a quarter of them are outliers.

    The expected time of a block is its steps times the median time per step. A block is an outlier
    if its time differs from the expected time by more than each of three limits: 2 %, 3.5 standard
    deviations of such differences, and the time of 1.5 steps. The last limit is for counts that the
    agent polls: at a constant 2.48 steps per second, it sees 12 or 13 new steps every 5 s.

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
    """Combine consecutive blocks into at most 20 batches; return the steps and seconds of each.

    Long batches are less correlated than short ones. More than 8 to 10 batches make a confidence
    interval hardly narrower (Schmeiser: Batch Size Effects in the Analysis of Simulation Output,
    Operations Research 30(3), 1982).
    """
    size = -(-len(blocks) // _MOST_BATCHES)
    groups = [blocks[start : start + size] for start in range(0, len(blocks), size)]
    return [
        (sum(block.steps for block in group), sum(block.seconds for block in group))
        for group in groups
    ]
