"""Finds the pods to measure with several CPU limits, and calls the profiler for each of them."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Final

import kopf

from gputopo.api.names import GROUP, VERSION
from gputopo.runtime.log import fields
from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import ApiError
from gputopo_operator.controller.profiler import Profiler
from gputopo_operator.controller.profiling_api import ProfilingApi
from gputopo_operator.controller.work_queue import queue_in_threads
from gputopo_operator.parse.profiling import profiled_pods
from gputopo_operator.settings import OperatorSettings

WORKERS: Final = 2
"""Pods that are advanced at the same time; a step takes a few requests, and most steps wait."""

_log = logging.getLogger(__name__)


class ProfiledPods:
    """Finds the pods that request to measure CPUs and have a new sample.

    The agent of a node writes its GPUTopology up to twice a minute, also for changes of other pods.
    A pod without a new sample is skipped: the same decision again would only cost requests.
    """

    def __init__(self, namespaces: tuple[str, ...]) -> None:
        self._namespaces = namespaces
        self._seen: dict[str, dict[ObjectKey, frozenset[str]]] = {}

    def changed(self, node: str, status: Mapping[str, Any]) -> list[ObjectKey]:
        """Return those pods to measure that are new in ``status`` or have a new sample in it."""
        after = profiled_pods(status, self._namespaces)
        before = self._seen.pop(node, {})
        if after:
            self._seen[node] = after
        return [key for key, seen in after.items() if not seen <= before.get(key, frozenset())]


class ProfilingQueue:
    """The work queue of the pods that are measured with several CPU limits.

    The status of a GPUTopology names the pods that request a measurement. A label marks the pods
    whose original CPUs are not yet restored, so that the operator finds them even without an agent.
    """

    def __init__(
        self,
        profiler: Profiler,
        api: ProfilingApi,
        settings: OperatorSettings,
        threads: Executor,
        on_error: Callable[[], None],
    ) -> None:
        """Call ``on_error`` after each failure that is repeated."""
        self._queue = queue_in_threads(profiler.advance, threads, on_error=on_error)
        self._on_error = on_error
        self._api = api
        self._namespaces = settings.namespace_names
        self._resync_seconds = settings.resync_seconds

    def watch(self, registry: kopf.OperatorRegistry) -> None:
        """Register the watch of GPUTopologies."""
        pods = ProfiledPods(self._namespaces)

        @kopf.on.event(GROUP, VERSION, "gputopologies", registry=registry)
        async def measurements_changed(
            event: kopf.RawEvent, name: str, status: kopf.Status, **_: object
        ) -> None:
            gone = event["type"] == "DELETED"
            for key in pods.changed(name, {} if gone else status):
                self._queue.add(key)

    async def run(self) -> None:
        """Call the profiler for the pods in the queue until cancelled."""
        await self._queue.run(WORKERS)

    async def resync(self) -> None:
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
