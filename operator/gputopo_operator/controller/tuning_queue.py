"""The work queue of the nodes whose running pods gputopo sizes."""

import asyncio
from collections.abc import Iterable
from typing import Final

import kopf

from gputopo.api.names import GROUP, VERSION
from gputopo_kube.client import AsyncApi, httpx_client
from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.parsed_objects import ObjectChange
from gputopo_operator.controller.parts import Loops, OperatorPart, PartInputs
from gputopo_operator.controller.pod_watch import PodWatch
from gputopo_operator.controller.sized_pods import SizedPods
from gputopo_operator.controller.tuner import Tuner
from gputopo_operator.controller.tuning_api import TuningApi
from gputopo_operator.controller.waiting_pods import WaitingPods
from gputopo_operator.decision.reports import sizes_differ
from gputopo_operator.metrics import OperatorLoop
from gputopo_operator.model.workloads import NO_REPORT, NodeReport
from gputopo_operator.parse.watched import profile_fingerprint
from gputopo_operator.settings import OperatorSettings

WORKERS: Final = 2
"""Nodes that are decided about at the same time. One decision needs 2 requests, one more for each
GPUProfile of the node, and 2 for each resize. With 1,000 nodes, a round of 300 s needs about 10
requests per second."""

DELAY_SECONDS: Final = 0.5
"""Time to collect changes of one node. A resize causes several events within a second."""


class TuningQueue(OperatorPart):
    """Calls the tuner for each node that has sized pods, after changes and once per round.

    The node agents report changes of other pods and of the allocatable amounts in the GPUTopology.
    A round also finds changes that are too small for a report. If there are no sized pods, the only
    request is the watch of pods with the label ``gputopo.io/tuned``.
    """

    @staticmethod
    def workers(_: OperatorSettings) -> int:
        """Return the workers of the queue."""
        return WORKERS

    def __init__(self, found: PartInputs) -> None:
        self._waiting, self._sized = WaitingPods(), SizedPods()
        self._nodes = found.nodes
        self._settings = found.settings
        api = TuningApi(found.connection)
        sizing = found.metrics.sizing
        tuner = Tuner(api, found.objects, found.nodes, self._waiting, sizing, found.settings)
        self._queue = found.queue(tuner.advance, OperatorLoop.SIZING)
        sizing.watch_queue(self._queue.__len__)

    def watch(self, registry: kopf.OperatorRegistry) -> None:
        """Register the watch of GPUProfiles; subscribe to the reports of the nodes."""
        self._nodes.reports.subscribe(self._report_changed)

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

    def loops(self) -> Loops:
        """Return the workers of the queue, with the watch of pods."""
        return (self._run(),)

    def _report_changed(self, change: ObjectChange[NodeReport]) -> None:
        """Add a node with sized pods if the users or the health of its GPUs have changed."""
        if sizes_differ(change.before or NO_REPORT, change.after or NO_REPORT):
            self._add({change.name} & self._sized.nodes())

    async def _run(self) -> None:
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
