"""Builds the part that measures containers."""

from functools import partial

from gputopo.throughput.exposition import MAX_EXPOSITION_BYTES
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.build import ApiPart
from gputopo_deviceplugin.context import AgentContext, Loop
from gputopo_deviceplugin.counters.build import create_poller
from gputopo_deviceplugin.measure.isolation import run_isolated
from gputopo_deviceplugin.measure.log_reader import LogReader
from gputopo_deviceplugin.measure.measurer import Measurer, MeasureSources
from gputopo_deviceplugin.measure.scraper import RESPONSE_SECONDS, MetricsScraper
from gputopo_deviceplugin.measure.sockets import StepsSockets
from gputopo_kube.endpoint import EndpointClient


class MeasurePart:
    """The measurement of training steps, and of the hardware counters of the GPUs.

    Attributes:
        sockets: receive the steps of containers.
        counters: reads the hardware counters; None if the settings forbid it.
        measurer: measures the containers.
        loops: measure, also after an error.
    """

    loops: list[Loop]

    def __init__(self, context: AgentContext, api: ApiPart, tracker: UsageTracker) -> None:
        settings, state, changes = context.settings, context.state, context.changes
        steps, failed = context.metrics.steps, context.metrics.count_failure
        self.sockets = StepsSockets(settings.state_dir / "steps", failed)
        self.counters = create_poller(settings, state, context.metrics.counters, changes)
        sources = MeasureSources(state, api.connection, tracker, self.sockets, self.counters)
        self.measurer = measurer = Measurer(settings, sources, api.recorder, steps, changes)
        endpoints = EndpointClient(timeout_seconds=RESPONSE_SECONDS, max_bytes=MAX_EXPOSITION_BYTES)
        loops = [measurer.run, MetricsScraper(endpoints, measurer, steps).run]
        if (logs := settings.pod_logs_dir) is not None:
            loops.append(LogReader(measurer, logs, steps).run)
        if self.counters is not None:
            loops.append(self.counters.run)
        self.loops = [partial(run_isolated, loop, failed) for loop in loops]
