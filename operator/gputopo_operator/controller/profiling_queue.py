"""Finds the pods to measure with several CPU limits, and calls the profiler for each of them."""

import asyncio
import logging
from typing import Final

import kopf

from gputopo.runtime.log import fields
from gputopo_kube.errors import ApiError
from gputopo_operator.controller.parsed_objects import ObjectChange
from gputopo_operator.controller.parts import Loops, OperatorPart, PartInputs
from gputopo_operator.controller.profiler import Profiler
from gputopo_operator.controller.profiling_api import ProfilingApi
from gputopo_operator.metrics import OperatorLoop
from gputopo_operator.model.workloads import NO_REPORT, NodeReport
from gputopo_operator.settings import OperatorSettings

WORKERS: Final = 2
"""Pods that are advanced at the same time; a step takes a few requests, and most steps wait."""

_log = logging.getLogger(__name__)


class ProfilingQueue(OperatorPart):
    """The work queue of the pods that are measured with several CPU limits.

    The status of a GPUTopology names the pods that request a measurement. A label marks the pods
    whose original CPUs are not yet restored, so that the operator finds them even without an agent.
    """

    @staticmethod
    def workers(_: OperatorSettings) -> int:
        """Return the workers of the queue."""
        return WORKERS

    def __init__(self, found: PartInputs) -> None:
        self._api = ProfilingApi(found.connection)
        profiler = Profiler(self._api, found.objects, found.settings)
        self._queue = found.queue(profiler.advance, OperatorLoop.MEASURING)
        self._on_error = found.metrics.error_counter(OperatorLoop.MEASURING)
        self._nodes = found.nodes
        self._namespaces = found.settings.namespace_names
        self._resync_seconds = found.settings.resync_seconds

    def watch(self, _: kopf.OperatorRegistry) -> None:
        """Subscribe to the reports of the nodes."""
        self._nodes.reports.subscribe(self.report_changed)

    def loops(self) -> Loops:
        """Return the workers of the queue, and the resync."""
        return self._queue.run(WORKERS), self._resync()

    def report_changed(self, change: ObjectChange[NodeReport]) -> None:
        """Add the pods to measure that are new in a report or have a new sample in it.

        The agent of a node writes its GPUTopology up to twice a minute, also for changes of other
        pods. A pod without a new sample is skipped: the same decision would only cost requests.
        """
        before = (change.before or NO_REPORT).profiled
        for key, seen in (change.after or NO_REPORT).profiled.items():
            served = not self._namespaces or key.namespace in self._namespaces
            if served and not seen <= before.get(key, frozenset()):
                self._queue.add(key)

    async def _resync(self) -> None:
        """Add the pods whose original CPUs are not yet restored, periodically until cancelled."""
        while True:
            await self._add_active_pods()
            await asyncio.sleep(self._resync_seconds)

    async def _add_active_pods(self) -> None:
        for namespace in self._namespaces or (None,):
            try:
                keys = await asyncio.to_thread(self._api.active_pods, namespace)
            except ApiError as error:
                _log.warning(
                    "measured pods not listed %s", fields(namespace=namespace, reason=error)
                )
                self._on_error()
                continue
            for key in keys:
                self._queue.add(key)
