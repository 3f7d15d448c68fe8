"""Steady phases: the rate of a job while its surroundings do not change.

A phase is a time in which the *environment* of a container is constant: its CPUs, memory and GPUs,
and the other containers on the node. Each phase has its own samples, and a sample never contains
blocks of two phases.

Example with the default rules: a job starts, and its first steps follow after two minutes. The
next 30 s are dropped. Each 60 s after that give a sample, until there are three. Then each further
600 s give one more. Later a neighbour starts. The agent may notice it 10 s later, so the last 10 s
are dropped. The blocks since the last sample give one more sample, if they have at least 60 s. A
new phase begins.
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
"""Samples at the beginning of a phase that follow each other without a pause, because one sample
does not show how much samples scatter."""

MAX_BLOCKS: Final = 240
"""Blocks that a tracker stores; older ones are forgotten. They last at least 12 minutes."""


@dataclass(frozen=True, slots=True)
class SteadyRate:
    """A rate that was measured in a steady phase.

    Attributes:
        steps_per_second: positive; pauses that are outliers do not count.
        ci_permille: half of the 95 % interval, relative to the rate; at least 1.
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
    """Times in seconds, and the noise rule.

    Attributes:
        warm_up_seconds: time after the first block of a phase or process that is dropped.
        sample_seconds: shortest time that gives a sample.
        resample_seconds: time between two samples of one phase after ``FIRST_SAMPLES``.
        guard_seconds: longest time from a change of the environment until the agent notices it. A
            block is used only after this time.
        max_ci_permille: a sample with a wider interval is not taken, and measuring continues.
    """

    warm_up_seconds: float = 30.0
    sample_seconds: float = 60.0
    resample_seconds: float = 600.0
    guard_seconds: float = 10.0
    max_ci_permille: int = 100

    def __post_init__(self) -> None:
        """Raise ``InvalidInputError`` with the field and the value if one is negative or NaN."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not value >= 0:
                raise InvalidInputError(f"{field.name}: {value}; must be at least 0")


DEFAULT_RULES: Final = PhaseRules()


class PhaseTracker(Generic[Environment]):
    """Collects the blocks of one container and takes samples. Its memory is bounded.

    All times are seconds of the agent's monotonic clock.
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
        self._collect(rules.sample_seconds)

    def add(self, block: Block) -> PhaseSample[Environment] | None:
        """Add a block of :class:`StepMeter`; return the sample that is complete."""
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
        self._fresh.append(block)
        self._confirm(block.ended)
        return sample or self._look()

    def enter(self, environment: Environment, at: float) -> PhaseSample[Environment] | None:
        """Set the environment; if it changes, return the last sample of the phase that ends.

        ``at`` is the time at which the agent noticed the change.
        """
        if environment == self._environment:
            return None
        sample = self.finish(at)
        self._environment, self._changed_at = environment, at
        return sample

    def finish(self, at: float) -> PhaseSample[Environment] | None:
        """End the phase, for instance because the container has ended; return its last sample."""
        self._confirm(at)
        long_enough = sum(block.seconds for block in self._window) >= self._rules.sample_seconds
        sample = self._sample(steady_interval(self._window)) if long_enough else None
        self._warm_at = None
        self._taken = 0
        self._fresh.clear()
        self._collect(self._rules.sample_seconds)
        return sample

    def _confirm(self, now: float) -> None:
        """Use the blocks that ended long enough ago: a change before their end would be known."""
        while self._fresh and self._fresh[0].ended <= now - self._rules.guard_seconds:
            block = self._fresh.popleft()
            self._window.append(block)
            self._collected += block.seconds
            self._wait -= 1

    def _collect(self, due: float) -> None:
        """Start a new sample of at least ``due`` seconds."""
        self._window.clear()
        self._collected = 0.0
        self._due = due
        self._wait = MIN_BLOCKS

    def _look(self) -> PhaseSample[Environment] | None:
        """Take a sample if it is time to.

        After a look without a sample, the next one follows when there are twice as many blocks. To
        look after each block would prefer the moments in which the interval is too narrow by
        chance.
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
