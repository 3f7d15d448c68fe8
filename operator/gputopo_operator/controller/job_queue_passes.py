"""Calls the starter when an event may let a job of gputopo's queue start."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final

import kopf

from gputopo.api.names import GROUP, JOB_LABEL, VERSION
from gputopo.runtime.log import fields
from gputopo_kube.errors import ApiError
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.job_queue_starter import PASS_SECONDS, JobQueueStarter
from gputopo_operator.controller.queue_nodes import ParsedObjects, QueueNodes
from gputopo_operator.controller.work_queue import queue_in_threads

WORKERS: Final = 1
"""One worker, so that no two decisions run at the same time."""

if TYPE_CHECKING:
    from gputopo_operator.controller.share_evaluation import ShareEvaluation

_KEY: Final = "queue"

_log = logging.getLogger(__name__)


class JobQueuePasses:
    """Calls the starter for all GPUJobs together: its work queue has only one key."""

    def __init__(
        self,
        starter: JobQueueStarter,
        api: JobApi,
        nodes: QueueNodes,
        shares: "ShareEvaluation | None",
        resync_seconds: float,
        threads: Executor,
        on_error: Callable[[], None],
    ) -> None:
        """Call ``on_error`` after each failure that is repeated."""
        self._queue = queue_in_threads(starter.advance, threads, on_error=on_error)
        self._on_error = on_error
        self._api = api
        self._nodes = nodes
        self._shares = shares
        self._resync_seconds = resync_seconds

    def watch(self, registry: kopf.OperatorRegistry) -> None:
        """Register the watches of GPUJobs, their Jobs and pods, and of the nodes."""

        @kopf.on.event(GROUP, VERSION, "gpujobs", registry=registry)
        @kopf.on.event("batch", "v1", "jobs", labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
        @kopf.on.event("", "v1", "pods", labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
        async def queued_job_changed(**_: object) -> None:
            self._add()

        @kopf.on.event(GROUP, VERSION, "gputopologies", registry=registry)
        async def node_gpus_changed(event: kopf.RawEvent, **_: object) -> None:
            self._follow(self._nodes.gpus, event)

        @kopf.on.event("", "v1", "nodes", registry=registry)
        async def node_changed(event: kopf.RawEvent, **_: object) -> None:
            self._follow(self._nodes.rules, event)

        if self._shares is not None:
            self._watch_profiles(registry, self._shares)

    def _watch_profiles(self, registry: kopf.OperatorRegistry, shares: "ShareEvaluation") -> None:
        @kopf.on.event(GROUP, VERSION, "gpuprofiles", registry=registry)
        async def facts_changed(event: kopf.RawEvent, **_: object) -> None:
            self._follow(shares.profiles, event)

    async def run(self) -> None:
        """Call the starter until cancelled."""
        await self._queue.run(WORKERS)

    async def resync(self) -> None:
        """Read all nodes and call the starter, periodically until cancelled."""
        while True:
            try:
                await asyncio.to_thread(self._replace_nodes)
            except ApiError as error:
                _log.warning("nodes not read %s", fields(reason=error))
                self._on_error()
            self._add()
            await asyncio.sleep(self._resync_seconds)

    def _replace_nodes(self) -> None:
        for objects in (self._nodes.gpus, self._nodes.rules):
            objects.begin_list()
        self._nodes.gpus.replace_all(self._api.topologies())
        self._nodes.rules.replace_all(self._api.nodes())

    def _follow(self, objects: ParsedObjects[Any], event: kopf.RawEvent) -> None:
        raw: dict[str, Any] = dict(event["object"])
        if event["type"] == "DELETED":
            objects.drop(raw)
        elif objects.replace(raw):
            self._add()

    def _add(self) -> None:
        self._queue.add_later(_KEY, PASS_SECONDS)
