"""Reads the logs of containers whose steps are counted in their logs (source ``Log``)."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Final

from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.measure.counts import StepCounts
from gputopo_deviceplugin.measure.pod_logs import PodLogs
from gputopo_deviceplugin.measure.unread import UnreadSteps
from gputopo_deviceplugin.metrics import StepMetrics
from gputopo_kube.daemon_thread import call_in_daemon_thread

LOG_SECONDS: Final = 1.0
"""Time between two reads of the logs."""


class LogReader:
    """Reads the logs once a second. A thread reads them, because a disk can be slow or hang."""

    def __init__(self, counts: StepCounts, directory: Path, metrics: StepMetrics) -> None:
        """Read logs below ``directory``, the host's ``/var/log/pods``."""
        self._counts = counts
        self._logs = PodLogs(directory)
        self._metrics = metrics
        self._unread = UnreadSteps(counts)

    async def run(self) -> None:
        """Read the logs until cancelled."""
        while True:
            await asyncio.sleep(LOG_SECONDS)
            containers = [each for each in self._counts.containers if each.request.source == "Log"]
            read = partial(self._logs.read, containers)
            for found in await call_in_daemon_thread(read, "logs"):
                self._counts.add(found.key, found.message)
            now = loop_time()
            self._unread.update(containers, self._logs.errors, now)
            if self._logs.errors:
                self._metrics.count_dropped_steps("Unreadable", len(self._logs.errors))
