"""Turns the counts of steps of one container into blocks, and computes its current rate.

The counts come from the user's program and may be wrong. The meter drops the interval between two
counts if it contains a restart of the program, a jump of a clock or a stall. So a rate is computed
only from times of training, and is never 0.
"""

from collections import Counter, deque
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from statistics import median
from typing import Final, NamedTuple

from gputopo.throughput.blocks import Block
from gputopo.throughput.interval import NO_DRIFT, steady_interval
from gputopo.throughput.message import StepMessage
from gputopo.throughput.senders import SenderWatch

BLOCK_SECONDS: Final = 3.0
"""A block ends with the first count of new steps after this time."""

CLOCK_TOLERANCE_SECONDS: Final = 5.0
"""If the clocks of sender and agent diverge by more than this, a clock has jumped."""

STALLED_SECONDS: Final = 60.0
"""A job is stalled if it makes no step for this time and for the time of 10 steps.

Before the first block, the time of a step is unknown, and this value is assumed for it."""

MAX_STEPS_PER_SECOND: Final = 1e6
"""A block with a higher rate is dropped."""

CLEAR_DRIFT: Final = 0.05
"""A steady job returns to the state WarmUp only if its rate changes by more than this fraction.

The test for a drift is significant by chance in 5 % of all cases. Without this limit, the state of
a steady job would change every minute."""

_STALLED_STEPS: Final = 10
_RECENT_BLOCKS: Final = 20


class RateState(StrEnum):
    """Whether a container's rate is known (STEADY), still changes (WARM_UP) or is unknown."""

    NO_DATA = "NoData"
    WARM_UP = "WarmUp"
    STEADY = "Steady"
    STALLED = "Stalled"
    SEVERAL_SENDERS = "SeveralSenders"


class DropReason(StrEnum):
    """Why the meter has dropped the interval between two counts of steps."""

    RESTART = "Restart"
    CLOCK_JUMP = "ClockJump"
    STALL = "Stall"
    IMPLAUSIBLE = "Implausible"
    SEVERAL_SENDERS = "SeveralSenders"


@dataclass(frozen=True, slots=True)
class CurrentRate:
    """The rate of the latest 20 blocks, which last about a minute if steps are short.

    Attributes:
        steps_per_second: None before the first block, and in states other than WARM_UP and STEADY.
        ci_permille: half of the 95 % interval in thousandths of the rate; None if not STEADY.
    """

    state: RateState
    steps_per_second: float | None = None
    ci_permille: int | None = None


class _Count(NamedTuple):
    message: StepMessage
    received: float


@dataclass(slots=True)
class _Segment:
    """Counts of one process between two interruptions.

    Attributes:
        offset: the agent's clock minus the sender's clock when the segment began.
        first: the count at which the current block (not the segment) began.
        last: the newest count that had new steps.
    """

    number: int
    offset: float
    first: _Count
    last: _Count

    def interruption(self, count: _Count) -> DropReason | None:
        """Return why ``count`` does not belong to this segment, or None if it does."""
        new, last = count.message, self.last.message
        if new.run != last.run or new.steps < last.steps or new.seconds < last.seconds:
            return DropReason.RESTART
        if abs(count.received - new.seconds - self.offset) > CLOCK_TOLERANCE_SECONDS:
            return DropReason.CLOCK_JUMP
        return None

    def block(self) -> Block:
        """Return the block between the counts ``first`` and ``last``."""
        return Block(
            self.number,
            self.first.received,
            self.last.received,
            self.last.message.steps - self.first.message.steps,
            self.last.message.seconds - self.first.message.seconds,
        )


class StepMeter:
    """Measures the rate of one container from its counts of steps. Its memory is bounded.

    All times are seconds of the agent's monotonic clock.

    Attributes:
        dropped: number of dropped intervals between two counts, by reason.
    """

    def __init__(self) -> None:
        self.dropped: Final = Counter[DropReason]()
        self._senders: Final = SenderWatch()
        self._recent: Final = deque[Block](maxlen=_RECENT_BLOCKS)
        self._segment: _Segment | None = None
        self._steady = False  # whether the recent blocks have been steady
        self._counts_since = -inf  # the rate is that of blocks that began at this time or later

    def begin_rate(self, at: float) -> None:
        """Begin a new rate: blocks that began before ``at`` do not count for it."""
        self._counts_since = at
        self._forget()

    def add(self, message: StepMessage, received: float) -> Block | None:
        """Add a message; return the block that the message completes, if any."""
        count, segment = _Count(message, received), self._segment
        if segment is None:
            self._begin_segment(0, count)
        elif reason := segment.interruption(count):
            self.dropped[reason] += 1
            self._senders.switch(segment.last.message, message, received)
            self._begin_segment(segment.number + 1, count)
        elif message.steps > segment.last.message.steps:
            self._senders.rise(message.steps, received)
            return self._advance(segment, count)
        return None

    def current(self, now: float) -> CurrentRate:
        """Return the state and the rate of the container at ``now``."""
        if self._segment is None:
            return CurrentRate(RateState.NO_DATA)
        if self._senders.several(now):
            return CurrentRate(RateState.SEVERAL_SENDERS)
        if now - self._segment.last.received > self._stalled_after():
            return CurrentRate(RateState.STALLED)
        if interval := steady_interval(self._recent, CLEAR_DRIFT if self._steady else NO_DRIFT):
            return CurrentRate(RateState.STEADY, interval.steps_per_second, interval.ci_permille)
        steps = sum(block.steps for block in self._recent)
        seconds = sum(block.seconds for block in self._recent)
        return CurrentRate(RateState.WARM_UP, steps / seconds if steps else None)

    def _begin_segment(self, number: int, count: _Count) -> None:
        offset = count.received - count.message.seconds
        self._segment = _Segment(number, offset, first=count, last=count)
        self._forget()

    def _advance(self, segment: _Segment, count: _Count) -> Block | None:
        waited = count.message.seconds - segment.last.message.seconds
        segment.last = count
        if waited > self._stalled_after():
            self.dropped[DropReason.STALL] += 1
            self._forget()  # the time of a step may be another one from here on
            segment.first = count
            return None
        block = segment.block()
        if block.seconds < BLOCK_SECONDS:
            return None
        segment.first = count
        return self._accept(block)

    def _accept(self, block: Block) -> Block | None:
        if self._senders.several(block.ended):
            self.dropped[DropReason.SEVERAL_SENDERS] += 1
            return None
        if block.steps > MAX_STEPS_PER_SECOND * block.seconds:
            self.dropped[DropReason.IMPLAUSIBLE] += 1
            return None
        if block.began >= self._counts_since:
            self._recent.append(block)
            self._steady = self._steady or steady_interval(self._recent) is not None
        return block

    def _forget(self) -> None:
        self._recent.clear()
        self._steady = False

    def _stalled_after(self) -> float:
        per_step = (
            median(block.seconds / block.steps for block in self._recent)
            if self._recent
            else STALLED_SECONDS
        )
        return max(STALLED_SECONDS, _STALLED_STEPS * per_step)
