"""Reads everything again periodically, because a watch may lose an event."""

import asyncio
import logging
from collections.abc import Collection

from gputopo.runtime.log import fields
from gputopo_kube.errors import ApiError
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.queues import Queues
from gputopo_operator.metrics import OperatorLoop, OperatorMetrics

_log = logging.getLogger(__name__)


class Resync:
    """Adds to the queues the GPUJobs and GPUProfiles whose status may be outdated."""

    def __init__(
        self,
        api: JobApi,
        queues: Queues,
        metrics: OperatorMetrics,
        namespaces: Collection[str],
    ) -> None:
        """Read objects of these namespaces, or of all if ``namespaces`` is empty."""
        self._api = api
        self._queues = queues
        self._metrics = metrics
        self._count_error = metrics.error_counter(OperatorLoop.RESYNC)
        self._namespaces = tuple(namespaces) or (None,)

    async def run(self, seconds: float) -> None:
        """Read everything once every ``seconds`` until cancelled; go on if a request fails."""
        while True:
            await asyncio.sleep(seconds)
            for namespace in self._namespaces:
                try:
                    await self._read_namespace(namespace)
                except ApiError as error:
                    _log.warning("resync failed %s", fields(reason=error))
                    self._count_error()

    async def _read_namespace(self, namespace: str | None) -> None:
        known = {key for key in self._metrics.known() if namespace in {None, key.namespace}}
        found = await asyncio.to_thread(self._api.gpu_jobs, namespace)
        deleted = known - found.keys()
        # Nothing changes a job that has ended, and a cluster keeps the jobs of weeks.
        for key in deleted | {key for key, ended in found.items() if not ended}:
            self._queues.jobs.add(key)
        for key in await asyncio.to_thread(self._api.outdated_profiles, namespace):
            self._queues.profiles.add(key)
