"""The work queue of the nodes whose running pods gputopo sizes."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Final

import kopf

from gputopo.api.names import GROUP, VERSION
from gputopo_kube.client import AsyncApi, httpx_client
from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.pod_watch import PodWatch
from gputopo_operator.controller.sized_pods import SizedPods
from gputopo_operator.controller.tuner import Tuner
from gputopo_operator.controller.waiting_pods import WaitingPods
from gputopo_operator.controller.work_queue import queue_in_threads
from gputopo_operator.parse.watched import gpus_fingerprint, profile_fingerprint
from gputopo_operator.settings import OperatorSettings

WORKERS: Final = 2
"""Nodes that are decided about at the same time. One decision needs 2 requests, one more for each
GPUProfile of the node, and 2 for each resize. With 1,000 nodes, a round of 300 s needs about 10
requests per second."""

DELAY_SECONDS: Final = 0.5
"""Time to collect changes of one node. A resize causes several events within a second."""


class TuningQueue:
    """Calls the tuner for each node that has sized pods, after changes and once per round.

    The node agents report changes of other pods and of the allocatable amounts in the GPUTopology.
    A round also finds changes that are too small for a report. If there are no sized pods, the only
    request is the watch of pods with the label ``gputopo.io/tuned``.
    """

    def __init__(
        self,
        tuner: Tuner,
        waiting: WaitingPods,
        settings: OperatorSettings,
        threads: Executor,
        on_error: Callable[[], None],
    ) -> None:
        """Call ``on_error`` after each failure that is repeated."""
        self._queue = queue_in_threads(tuner.advance, threads, on_error=on_error)
        self._sized = SizedPods()
        self._waiting = waiting
        self._settings = settings

    def __len__(self) -> int:
        return len(self._queue)

    def watch(self, registry: kopf.OperatorRegistry) -> None:
        """Register the watches of GPUTopologies and GPUProfiles."""

        @kopf.on.event(GROUP, VERSION, "gputopologies", registry=registry)
        async def gpus_changed(
            event: kopf.RawEvent, name: str, status: kopf.Status, **_: object
        ) -> None:
            gone = event["type"] == "DELETED"
            self._add(self._sized.gpus_changed(name, None if gone else gpus_fingerprint(status)))

        @kopf.on.event(GROUP, VERSION, "gpuprofiles", registry=registry)
        async def facts_changed(
            event: kopf.RawEvent,
            namespace: str | None,
            name: str,
            spec: kopf.Spec,
            status: kopf.Status,
            **_: object,
        ) -> None:
            gone = event["type"] == "DELETED"
            fingerprint = None if gone else profile_fingerprint(spec, status)
            self._add(self._sized.profile_changed(ObjectKey(namespace or "", name), fingerprint))

    async def run(self) -> None:
        """Watch pods, and call the tuner for the nodes in the queue, until cancelled."""
        async with (
            httpx_client(self._settings.api_timeout_seconds) as client,
            asyncio.TaskGroup() as group,
        ):
            api = AsyncApi(client)
            pods = PodWatch(api, self._sized, self._waiting, self._settings, self._add)
            group.create_task(self._queue.run(WORKERS))
            group.create_task(pods.run())

    def _add(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._queue.add_later(node, DELAY_SECONDS)
