"""Measures all containers of this node, and keeps the newest samples of their rates."""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from gputopo.api.profile import MAX_NODE_SAMPLES, Measurement, NodeSample
from gputopo.api.shares import gpu_of
from gputopo.runtime.log import fields
from gputopo.throughput.message import StepMessage
from gputopo.throughput.phases import PhaseRules
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.counters.gpu_reader import GpuReading
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.measure.container_meter import ContainerMeter, FoundSample
from gputopo_deviceplugin.measure.containers import ContainerKey, MeasuredContainer
from gputopo_deviceplugin.measure.environment import Environment
from gputopo_deviceplugin.measure.records import to_measurement, to_sample
from gputopo_deviceplugin.metrics import StepMetrics

_log = logging.getLogger(__name__)


class NodeMeters:
    """Measures several containers. Times are seconds of the monotonic clock.

    Attributes:
        containers: the measured containers.
        samples: the newest samples of all containers, oldest first.
    """

    def __init__(
        self, rules: PhaseRules, metrics: StepMetrics, wall_clock: Callable[[], str]
    ) -> None:
        """Take samples by ``rules``; ``wall_clock`` returns the current time in RFC 3339."""
        self._rules = rules
        self._metrics = metrics
        self._wall_clock = wall_clock
        self._meters: dict[ContainerKey, ContainerMeter] = {}
        self.containers: Mapping[ContainerKey, MeasuredContainer] = {}
        self.samples: Final = deque[NodeSample](maxlen=MAX_NODE_SAMPLES)

    def update(
        self,
        containers: Mapping[ContainerKey, MeasuredContainer],
        environments: Mapping[ContainerKey, Environment | None],
        now: float,
    ) -> None:
        """Set the containers to measure and their environments; end all other measurements."""
        for key in self._meters.keys() - containers.keys():
            self._store(self.containers[key], self._meters.pop(key).finish(now))
        for key, container in containers.items():
            meter = self._meters.setdefault(key, ContainerMeter(self._rules))
            self._store(container, meter.enter(environments[key], now))
        self.containers = containers

    def add(self, key: ContainerKey, message: StepMessage, now: float) -> None:
        """Add a count of steps from a measured container."""
        meter = self._meters[key]
        self._store(self.containers[key], meter.add(message, now))
        for reason in meter.newly_dropped:
            self._metrics.count_dropped_steps(reason.value)

    def add_counters(self, readings: Mapping[GpuUuid, GpuReading], hardware: NodeHardware) -> None:
        """Add what was read from the counters of all GPUs."""
        for key, container in self.containers.items():
            gpus = frozenset(map(gpu_of, container.gpus))
            self._meters[key].add_counters(readings, gpus, hardware)

    def measurements(self, now: float) -> tuple[Measurement, ...]:
        """Return the current rate of each container, sorted by namespace, pod and container."""
        found = [
            to_measurement(container, self._meters[key].current(now))
            for key, container in self.containers.items()
        ]
        return tuple(sorted(found, key=lambda each: (each.namespace, each.pod, each.container)))

    def _store(self, container: MeasuredContainer, found: FoundSample | None) -> None:
        sample = to_sample(container, found, self._wall_clock()) if found else None
        if sample is None:
            return
        self.samples.append(sample)
        self._metrics.count_sample()
        rate = f"{sample.steps_per_second:.6g}"
        _log.info(
            "sample taken %s",
            fields(
                pod=container.pod.key,
                container=container.name,
                profile=sample.profile,
                steps_per_second=rate,
                ci_permille=sample.ci_permille,
                seconds=sample.seconds,
                traffic=sample.traffic.pattern if sample.traffic else None,
                load=sample.load.source if sample.load else None,
            ),
        )
