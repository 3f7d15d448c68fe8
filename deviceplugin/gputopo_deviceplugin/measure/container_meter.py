"""Measures one container: counts of steps become blocks, and blocks become samples."""

from typing import TypeAlias

from gputopo.throughput.message import StepMessage
from gputopo.throughput.meter import CurrentRate, DropReason, StepMeter
from gputopo.throughput.phases import PhaseRules, PhaseSample, PhaseTracker
from gputopo_deviceplugin.measure.environment import Environment

FoundSample: TypeAlias = PhaseSample[Environment | None]
"""A steady rate. Without an environment it is useless."""


class ContainerMeter:
    """The meter of one container. Times are seconds of the agent's monotonic clock.

    Attributes:
        newly_dropped: why the last count dropped an interval; empty if it dropped none.
    """

    def __init__(self, rules: PhaseRules) -> None:
        self.newly_dropped: frozenset[DropReason] = frozenset()
        self._meter = StepMeter()
        self._phases = PhaseTracker[Environment | None](None, rules)

    def enter(self, environment: Environment | None, at: float) -> FoundSample | None:
        """Set the environment; if it has changed, return the last sample of the former one.

        There is no such sample if the new environment is None: a GPU may have been slow for some
        time before the agent noticed that it is unhealthy.
        """
        found = self._phases.enter(environment, at)
        return None if environment is None else found

    def add(self, message: StepMessage, received: float) -> FoundSample | None:
        """Add a count of steps, and return the sample that it completes."""
        before = self._meter.dropped.copy()
        block = self._meter.add(message, received)
        self.newly_dropped = frozenset(self._meter.dropped - before)
        return self._phases.add(block) if block is not None else None

    def finish(self, at: float) -> FoundSample | None:
        """Return the last sample, because the container has ended."""
        return self._phases.finish(at)

    def current(self, now: float) -> CurrentRate:
        """Return state and rate of the container."""
        return self._meter.current(now)
