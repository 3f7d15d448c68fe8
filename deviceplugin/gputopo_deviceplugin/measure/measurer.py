"""Measures this node's containers once a second, and decides what the agent publishes."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gputopo.runtime.times import utc_now
from gputopo.throughput.message import StepMessage, StepMessageError, parse_message
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.counters.poller import CounterPoller
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.measure.containers import (
    ContainerKey,
    MeasuredContainer,
    measured_containers,
)
from gputopo_deviceplugin.measure.environment import Environment, environment_of
from gputopo_deviceplugin.measure.meters import NodeMeters
from gputopo_deviceplugin.measure.records import NodeMeasurements, next_measurements
from gputopo_deviceplugin.measure.sockets import Datagram, StepsSockets
from gputopo_deviceplugin.metrics import StepMetrics
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.changes import ChangeSignal

POLL_SECONDS: Final = 1.0
"""Time between two reads of the sockets."""


@dataclass(frozen=True, slots=True)
class MeasureSources:
    """The parts of the agent from which the measurer takes its data."""

    state: GpuState
    connection: ApiConnection
    tracker: UsageTracker
    sockets: StepsSockets
    counters: CounterPoller | None = None


class Measurer:
    """Measures the containers with GPUs.

    Attributes:
        published: what the GPUTopology's status shows. None until the agent has measured for some
            time; until then, the status keeps the measurements from before the agent's start.
    """

    def __init__(
        self,
        settings: AgentSettings,
        sources: MeasureSources,
        recorder: EventRecorder,
        metrics: StepMetrics,
        changes: ChangeSignal,
    ) -> None:
        self._sources = sources
        self._recorder = recorder
        self._metrics = metrics
        self._changes = changes
        self._meters = NodeMeters(settings.phase_rules, metrics, utc_now)
        self._reads_logs = settings.pod_logs_dir is not None
        self._publish_seconds = settings.measure_publish_seconds
        self._publish_at: float | None = None
        self._faults: set[tuple[str, str]] = set()
        self.published: NodeMeasurements | None = None

    @property
    def containers(self) -> Collection[MeasuredContainer]:
        """The containers that are measured now."""
        return self._meters.containers.values()

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            self.measure(loop_time())
            await asyncio.sleep(POLL_SECONDS)

    def measure(self, now: float) -> None:
        """Process the steps that have arrived; ``now`` is the time of the event loop in seconds."""
        self._update_containers(now)
        for datagram in self._sources.sockets.receive():
            self._add_datagram(datagram, now)
        self._add_counters()
        self._publish(now)
        self._remove_sockets()

    def add(self, key: ContainerKey, message: StepMessage) -> None:
        """Add a count from a metric or a log, if the container is still measured."""
        if key in self._meters.containers:
            self._meters.add(key, message, loop_time())

    def record_unread(self, container: MeasuredContainer, reason: str) -> None:
        """Record an event: for some time, no steps of the container could be read."""
        self._recorder.record_invalid_measuring(container.pod, reason)

    def _update_containers(self, now: float) -> None:
        state, tracker = self._sources.state, self._sources.tracker
        pods, hardware = tracker.pods, state.known
        users = tracker.find_users([*hardware.gpus, *state.offered_shares])
        containers = measured_containers(users, pods, reads_logs=self._reads_logs)
        environments: dict[ContainerKey, Environment | None] = {
            # Without the API server, the agent does not know limits and neighbours.
            key: environment_of(container, users, pods, hardware)
            if self._sources.connection.connected
            else None
            for key, container in containers.items()
        }
        self._meters.update(containers, environments, now)
        self._report_faults()

    def _report_faults(self) -> None:
        """Record an Event for each invalid annotation, but only once."""
        before, self._faults = self._faults, set()
        for container in self.containers:
            if container.fault is not None:
                fault = (container.pod.uid, container.fault)
                if fault not in before | self._faults:
                    self._recorder.record_invalid_measuring(container.pod, container.fault)
                self._faults.add(fault)

    def _add_datagram(self, datagram: Datagram, now: float) -> None:
        key, data = datagram
        container = self._meters.containers.get(key)
        if container is None or container.request.source != "SDK":
            self._metrics.count_dropped_steps("NotMeasured")
        elif data is None:
            self._metrics.count_dropped_steps("TooLarge")
        else:
            try:
                self._meters.add(key, parse_message(data), now)
            except StepMessageError:
                self._metrics.count_dropped_steps("Malformed")

    def _add_counters(self) -> None:
        """Add the counters that were read since the last call."""
        counters = self._sources.counters
        if counters is None:
            return
        counters.active = bool(self.containers)
        for reading in counters.take():
            self._meters.add_counters(reading.gpus, self._sources.state.known)

    def _publish(self, now: float) -> None:
        """Set the metrics. Update ``published`` if enough time has passed since the last update."""
        current = self._meters.measurements(now)
        self._metrics.set_rates(
            {
                (each.namespace, each.pod, each.container): each.micro_steps_per_second / 1e6
                for each in current
                if each.micro_steps_per_second is not None
            }
        )
        if self._publish_at is None:
            self._publish_at = now + self._publish_seconds
        if now < self._publish_at:
            return
        before = self.published or NodeMeasurements()
        measurements = next_measurements(before.measurements, current)
        found = NodeMeasurements(measurements, tuple(self._meters.samples))
        if found != self.published:
            self.published = found
            self._publish_at = now + self._publish_seconds
            self._changes.notify()

    def _remove_sockets(self) -> None:
        """Remove the sockets of pods that have ended and of which no process runs any more."""
        tracker = self._sources.tracker
        if tracker.listed is None or tracker.pods.version is None:
            return
        using = tracker.uids | {pod.uid for pod in tracker.pods.values() if pod.live}
        for key in self._sources.sockets.keys:
            if key.uid not in using:
                self._sources.sockets.remove(key)
