"""Reads everything again periodically, because a watch may lose an event."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from gputopo.runtime.log import fields
from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import ApiError
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_reports import NodeReports
from gputopo_operator.controller.queues import Queues
from gputopo_operator.metrics import OperatorLoop, OperatorMetrics
from gputopo_operator.model.workloads import ReportChanges

_log = logging.getLogger(__name__)


class Resync:
    """Adds to the queues the GPUJobs and GPUProfiles whose status may be outdated."""

    def __init__(
        self,
        api: JobApi,
        queues: Queues,
        reports: NodeReports,
        metrics: OperatorMetrics,
        namespaces: Collection[str],
    ) -> None:
        """Read objects of these namespaces, or of all if ``namespaces`` is empty."""
        self._api = api
        self._queues = queues
        self._reports = reports
        self._metrics = metrics
        self._count_error = metrics.error_counter(OperatorLoop.RESYNC)
        self._namespaces = tuple(namespaces) or (None,)

    async def run(self, seconds: float) -> None:
        """Read everything once every ``seconds`` until cancelled; go on if a request fails."""
        while True:
            await asyncio.sleep(seconds)
            for namespace in self._namespaces:
                await self._attempt(partial(self._read_namespace, namespace))
            await self._attempt(self._read_nodes)

    async def _attempt(self, read: Callable[[], Awaitable[None]]) -> None:
        try:
            await read()
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

    async def _read_nodes(self) -> None:
        self._queues.add_changed_profiles(await asyncio.to_thread(self._replace_reports))

    def _replace_reports(self) -> ReportChanges:
        """Read the reports of all nodes; return the GPUProfiles with a new sample or a new pod."""
        before, read = self._reports.begin_list(), dict[str, str]()
        profiles = set[ObjectKey]()
        for topology in self._api.topologies():
            read[topology["metadata"]["name"]] = topology["metadata"]["uid"]
            profiles |= self._reports.replace(topology, listed=True).profiles
        for node, uid in before.items() - read.items():
            self._reports.drop(node, uid)
        return ReportChanges(profiles=frozenset(profiles))
