"""Computes one container's training speed, and samples of this speed, from counts of steps."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gputopo.counters.model import Load, Traffic
from gputopo.throughput.message import StepMessage
from gputopo.throughput.meter import CurrentRate, DropReason, RateState, StepMeter
from gputopo.throughput.phases import PhaseRules, PhaseSample, PhaseTracker, SteadyRate
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.counters.gpu_reader import GpuReading
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.measure.container_counters import ContainerCounters
from gputopo_deviceplugin.measure.environment import Environment


@dataclass(frozen=True, slots=True)
class FoundSample:
    """A steady rate, and what was measured in the same time.

    Attributes:
        environment: where it was measured. Without an environment, the rate is not used.
        traffic: None if it is unknown.
        load: None if it is unknown.
    """

    environment: Environment | None
    rate: SteadyRate
    traffic: Traffic | None = None
    load: Load | None = None


class ContainerMeter:
    """Measures one container. Times are seconds of the agent's monotonic clock.

    Attributes:
        newly_dropped: why the last ``add`` ignored steps. Empty if it ignored none.
    """

    def __init__(self, rules: PhaseRules) -> None:
        self.newly_dropped: frozenset[DropReason] = frozenset()
        self._meter = StepMeter()
        self._phases = PhaseTracker[Environment | None](None, rules)
        self._counters = ContainerCounters()
        self._environment: Environment | None = None
        self._limits: tuple[int | None, int | None] | None = None
        self._steps: int | None = None
        self._state = RateState.NO_DATA

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
        found = self._complete(self._phases.enter(environment, at))
        if environment != self._environment:
            self._environment = environment
            self._counters.reset()
        return None if environment is None else found

    def add(self, message: StepMessage, received: float) -> FoundSample | None:
        """Add a count of steps; return the sample that the count completes, if any."""
        before = self._meter.dropped.copy()
        block = self._meter.add(message, received)
        self._steps = message.steps
        self.newly_dropped = frozenset(self._meter.dropped - before)
        if block is None:
            return None
        warm = self._phases.warm
        found = self._complete(self._phases.add(block))
        if self._phases.warm and not warm:
            self._counters.reset()  # the steps of the warm-up may be slower
        return found

    def add_counters(
        self,
        readings: Mapping[GpuUuid, GpuReading],
        gpus: Collection[GpuUuid],
        hardware: NodeHardware,
    ) -> None:
        """Add what was read from the counters of all GPUs of the node.

        The counters of a GPU do not show which of its containers caused them, so they are ignored
        while other pods share the GPU.

        Args:
            readings: the readings by GPU.
            gpus: the GPUs of the container.
            hardware: the GPUs of the node and their NVLinks.
        """
        environment = self._environment
        if environment is not None and not environment.on_gpu and self._phases.warm:
            several = self._state is RateState.SEVERAL_SENDERS
            self._counters.add(readings, gpus, hardware, None if several else self._steps)

    def finish(self, at: float) -> FoundSample | None:
        """End the measurement, because the container has ended; return the last sample."""
        return self._complete(self._phases.finish(at))

    def current(self, now: float) -> CurrentRate:
        """Return the state and the current rate of the container."""
        found = self._meter.current(now)
        self._state = found.state
        return found

    def _complete(self, found: PhaseSample[Environment | None] | None) -> FoundSample | None:
        if found is None:
            return None
        return FoundSample(found.environment, found.rate, *self._counters.take())
