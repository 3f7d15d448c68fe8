"""Reads counts of steps from the Prometheus endpoints of containers."""

import asyncio
from typing import Final, Protocol

from gputopo.throughput.exposition import StepMetricError, parse_metric
from gputopo.throughput.message import StepMessage
from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.measure.containers import MeasuredContainer
from gputopo_deviceplugin.measure.counts import StepCounts
from gputopo_deviceplugin.measure.unread import UnreadSteps
from gputopo_deviceplugin.metrics import StepMetrics
from gputopo_kube.endpoint import EndpointError, pod_url

SCRAPE_SECONDS: Final = 5.0
RESPONSE_SECONDS: Final = 2.0
"""Time limit for one response."""

_MOST_REQUESTS: Final = 8
"""Most requests at a time. All responses together need at most 8 MiB."""

_RUN: Final = "metrics"


class EndpointReader(Protocol):
    """Reads HTTP endpoints; see ``EndpointClient``."""

    async def read(self, url: str) -> bytes:
        """Return the text of an endpoint, or raise ``EndpointError``."""
        ...


class MetricsScraper:
    """Reads the endpoint of each container with the source ``Metrics`` every 5 s."""

    def __init__(self, client: EndpointReader, counts: StepCounts, metrics: StepMetrics) -> None:
        self._client = client
        self._counts = counts
        self._metrics = metrics
        self._requests = asyncio.Semaphore(_MOST_REQUESTS)
        self._unread = UnreadSteps(counts)

    async def run(self) -> None:
        """Read the endpoints until cancelled."""
        while True:
            await asyncio.sleep(SCRAPE_SECONDS)
            await self._scrape()

    async def _scrape(self) -> None:
        targets = [each for each in self._counts.containers if each.request.source == "Metrics"]
        found = await asyncio.gather(*(self._read(each) for each in targets))
        errors = {
            each.key: error for each, error in zip(targets, found, strict=True) if error is not None
        }
        self._unread.update(targets, errors, loop_time())

    async def _read(self, container: MeasuredContainer) -> str | None:
        """Read the steps of one container; return the error message, or None without an error."""
        endpoint, ip = container.request.metrics, container.pod.runtime.ip
        if endpoint is None or ip is None:
            return None
        try:
            async with self._requests:
                text = await self._client.read(pod_url(ip, endpoint.port, endpoint.path))
            seconds = loop_time()
            steps = parse_metric(text, endpoint.metric)
        except (EndpointError, StepMetricError) as error:
            self._metrics.count_dropped_steps("Unreadable")
            return str(error)
        self._counts.add(container.key, StepMessage(_RUN, steps, seconds))
        return None
