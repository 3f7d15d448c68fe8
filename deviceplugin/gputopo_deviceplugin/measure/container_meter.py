"""Computes one container's training speed, and samples of this speed, from counts of steps."""

from typing import TypeAlias

from gputopo.throughput.message import StepMessage
from gputopo.throughput.meter import CurrentRate, DropReason, StepMeter
from gputopo.throughput.phases import PhaseRules, PhaseSample, PhaseTracker
from gputopo_deviceplugin.measure.environment import Environment

FoundSample: TypeAlias = PhaseSample[Environment | None]
"""A steady rate, and its environment. Without an environment, the rate is not used."""


class ContainerMeter:
    """Measures one container. Times are seconds of the agent's monotonic clock.

    Attributes:
        newly_dropped: why the last ``add`` ignored steps. Empty if it ignored none.
    """

    def __init__(self, rules: PhaseRules) -> None:
        self.newly_dropped: frozenset[DropReason] = frozenset()
        self._meter = StepMeter()
        self._phases = PhaseTracker[Environment | None](None, rules)
        self._limits: tuple[int | None, int | None] | None = None

    def enter(self, environment: Environment | None, at: float) -> FoundSample | None:
        """Set the environment. If it has changed, return the last sample of the former environment.

        If the new environment is None, a GPU may be unhealthy. Then the method returns no sample,
        because this GPU may have been slow before the agent noticed the fault.

        If CPU or memory limits have changed, the meter begins a new rate: the agent publishes each
        rate together with the CPU limit.
        """
        if environment is not None:
            limits = (environment.runtime.milli_cpu, environment.runtime.memory_bytes)
            if self._limits not in {None, limits}:
                self._meter.begin_rate(at)
            self._limits = limits
        found = self._phases.enter(environment, at)
        return None if environment is None else found

    def add(self, message: StepMessage, received: float) -> FoundSample | None:
        """Add a count of steps; return the sample that the count completes, if any."""
        before = self._meter.dropped.copy()
        block = self._meter.add(message, received)
        self.newly_dropped = frozenset(self._meter.dropped - before)
        return self._phases.add(block) if block is not None else None

    def finish(self, at: float) -> FoundSample | None:
        """End the measurement, because the container has ended; return the last sample."""
        return self._phases.finish(at)

    def current(self, now: float) -> CurrentRate:
        """Return the state and the current rate of the container."""
        return self._meter.current(now)
