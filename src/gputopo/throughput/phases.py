"""Takes samples of a container's rate while the environment of the container does not change.

The *environment* is the container's CPUs, memory and GPUs, and the other containers on the node. A
*phase* is a time in which the environment does not change. A sample never contains blocks of two
phases.

Example with the default rules: a job makes its first step. The next 30 s are dropped. After that,
three samples of 60 s each are taken, and then one sample every 600 s. Later a neighbour starts. The
agent may notice the neighbour up to 10 s later, so the last 10 s are dropped. If at least 60 s
remain since the last sample, they give one more sample. Then a new phase begins.
"""

import math
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Final, Generic, TypeVar

from gputopo.errors import InvalidInputError
from gputopo.throughput.blocks import Block
from gputopo.throughput.interval import MIN_BLOCKS, RateInterval, steady_interval

Environment = TypeVar("Environment", bound=Hashable)

FIRST_SAMPLES: Final = 3
"""Number of samples that a phase takes without a pause at its begin, because one sample does not
show how much samples differ."""

MAX_BLOCKS: Final = 240
"""Number of the newest blocks that a tracker keeps. They last at least 12 minutes."""


@dataclass(frozen=True, slots=True)
class SteadyRate:
    """A rate that was measured in a steady phase.

    Attributes:
        steps_per_second: positive; pauses that are outliers do not count.
        ci_permille: half of the 95 % interval in thousandths of the rate; at least 1.
        seconds: duration of the blocks that were used.
    """

    steps_per_second: float
    ci_permille: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PhaseSample(Generic[Environment]):
    """A steady rate, and the environment in which it was measured."""

    environment: Environment
    rate: SteadyRate


@dataclass(frozen=True, slots=True)
class PhaseRules:
    """When a sample is taken, and how wide its interval may be.

    Attributes:
        warm_up_seconds: time that is dropped after the first block of a phase or process.
        sample_seconds: least duration of each of the first three samples of a phase.
        resample_seconds: least duration of each later sample of a phase.
        guard_seconds: longest time until the agent notices a change of the environment. A block is
            used only if the agent notices no change until this time after the end of the block.
        max_ci_permille: a sample with a wider interval is not taken, and measuring continues.
    """

    warm_up_seconds: float = 30.0
    sample_seconds: float = 60.0
    resample_seconds: float = 600.0
    guard_seconds: float = 10.0
    max_ci_permille: int = 100

    def __post_init__(self) -> None:
        """Raise ``InvalidInputError`` if a value is negative or NaN."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not value >= 0:
                raise InvalidInputError(f"{field.name}: {value}; must be at least 0")


DEFAULT_RULES: Final = PhaseRules()


class PhaseTracker(Generic[Environment]):
    """Collects the blocks of one container and takes samples. Its memory is bounded.

    All times are seconds of the agent's monotonic clock.

    Attributes:
        warm: whether the warm-up of the current phase and process is over.
    """

    def __init__(self, environment: Environment, rules: PhaseRules = DEFAULT_RULES) -> None:
        self._rules: Final = rules
        self._fresh: Final = deque[Block](maxlen=MAX_BLOCKS)  # may be from after a change
        self._window: Final = deque[Block](maxlen=MAX_BLOCKS)
        self._environment = environment
        self._changed_at = -math.inf
        self._segment = 0
        self._taken = 0  # samples of this phase
        self._warm_at: float | None = None
        self.warm = False
        self._collect(rules.sample_seconds)

    def add(self, block: Block) -> PhaseSample[Environment] | None:
        """Add a block of :class:`StepMeter`; return the sample that the block completes, if any."""
        sample = None
        if block.segment != self._segment:  # another process, which warms up again
            sample = self.finish(block.began)
            self._segment = block.segment
        if block.began < self._changed_at:  # the change is inside the block
            return sample
        if self._warm_at is None:
            self._warm_at = block.began + self._rules.warm_up_seconds
        if block.began < self._warm_at:
            return sample
        self.warm = True
        self._fresh.append(block)
        self._confirm(block.ended)
        return sample or self._look()

    def enter(self, environment: Environment, at: float) -> PhaseSample[Environment] | None:
        """Set the environment. If it has changed, return the last sample of the phase that ends.

        ``at`` is the time at which the agent noticed the change.
        """
        if environment == self._environment:
            return None
        sample = self.finish(at)
        self._environment, self._changed_at = environment, at
        return sample

    def finish(self, at: float) -> PhaseSample[Environment] | None:
        """End the phase, for instance if the container has ended; return its last sample."""
        self._confirm(at)
        long_enough = sum(block.seconds for block in self._window) >= self._rules.sample_seconds
        sample = self._sample(steady_interval(self._window)) if long_enough else None
        self._warm_at = None
        self.warm = False
        self._taken = 0
        self._fresh.clear()
        self._collect(self._rules.sample_seconds)
        return sample

    def _confirm(self, now: float) -> None:
        """Use blocks older than ``guard_seconds``: the agent has noticed all changes in them."""
        while self._fresh and self._fresh[0].ended <= now - self._rules.guard_seconds:
            block = self._fresh.popleft()
            self._window.append(block)
            self._collected += block.seconds
            self._wait -= 1

    def _collect(self, due: float) -> None:
        """Start to collect blocks for a new sample of at least ``due`` seconds."""
        self._window.clear()
        self._collected = 0.0
        self._due = due
        self._wait = MIN_BLOCKS

    def _look(self) -> PhaseSample[Environment] | None:
        """Take a sample if there are enough blocks and their rate is steady.

        If there is no sample, try again when there are twice as many blocks. An attempt after each
        block would often succeed because the confidence interval is too narrow by chance.
        """
        if self._wait > 0 or self._collected < self._due:
            return None
        interval = steady_interval(self._window)
        if interval is None:  # the older half may be from the start of the program
            for _ in range(len(self._window) // 2):
                self._window.popleft()
        sample = self._sample(interval)
        if sample:
            self._taken += 1
            first = self._taken < FIRST_SAMPLES
            self._collect(self._rules.sample_seconds if first else self._rules.resample_seconds)
        else:
            self._wait = len(self._window)
        return sample

    def _sample(self, interval: RateInterval | None) -> PhaseSample[Environment] | None:
        if interval is None or interval.ci_permille > self._rules.max_ci_permille:
            return None
        rate = SteadyRate(interval.steps_per_second, interval.ci_permille, interval.seconds)
        return PhaseSample(self._environment, rate)
