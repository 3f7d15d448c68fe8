"""Calls the starter when an event may let a job of gputopo's queue start."""

import asyncio
from typing import TYPE_CHECKING, Final

import kopf

from gputopo.api.names import GROUP, JOB_LABEL, VERSION
from gputopo_operator.controller.job_queue_api import JobQueueApi
from gputopo_operator.controller.job_queue_starter import PASS_SECONDS, JobQueueStarter, no_joins
from gputopo_operator.controller.parsed_objects import ObjectChange
from gputopo_operator.controller.parts import Loops, OperatorPart, PartInputs
from gputopo_operator.decision.reports import offers_differ
from gputopo_operator.metrics import OperatorLoop
from gputopo_operator.model.workloads import NO_REPORT, NodeReport
from gputopo_operator.settings import OperatorSettings

WORKERS: Final = 1
"""One worker, so that no two decisions run at the same time."""

if TYPE_CHECKING:
    from gputopo_operator.controller.share_evaluation import ShareEvaluation

_KEY: Final = "queue"


class JobQueuePasses(OperatorPart):
    """Calls the starter for all GPUJobs together: its work queue has only one key."""

    @staticmethod
    def workers(settings: OperatorSettings) -> int:
        """Return 0 if the installation does not use gputopo's queue."""
        return WORKERS if settings.queue_order else 0

    def __init__(self, found: PartInputs) -> None:
        settings = found.settings
        self._nodes = found.nodes
        self._shares = shares = _share_evaluation(settings)
        self._resync_seconds = settings.resync_seconds
        starter = JobQueueStarter(
            JobQueueApi(found.connection, settings.namespace_names, settings.scheduler_name),
            found.objects,
            found.nodes,
            found.metrics,
            settings.queue_rules,
            settings.resource,
            joins=no_joins if shares is None else shares.joins,
        )
        self._queue = found.queue(starter.advance, OperatorLoop.QUEUE)

    def watch(self, registry: kopf.OperatorRegistry) -> None:
        """Register the watches of GPUJobs, their Jobs and pods; subscribe to the nodes."""

        @kopf.on.event(GROUP, VERSION, "gpujobs", registry=registry)
        @kopf.on.event("batch", "v1", "jobs", labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
        @kopf.on.event("", "v1", "pods", labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
        async def queued_job_changed(**_: object) -> None:
            self._add()

        self._nodes.reports.subscribe(self._report_changed)
        self._nodes.rules.subscribe(self._add)
        if self._shares is not None:
            profiles = self._shares.profiles
            profiles.subscribe(self._add)

            @kopf.on.event(GROUP, VERSION, "gpuprofiles", registry=registry)
            async def facts_changed(event: kopf.RawEvent, **_: object) -> None:
                profiles.follow(event)

    def loops(self) -> Loops:
        """Return the worker, and the resync."""
        return self._queue.run(WORKERS), self._resync()

    async def _resync(self) -> None:
        while True:
            self._add()
            await asyncio.sleep(self._resync_seconds)

    def _report_changed(self, change: ObjectChange[NodeReport]) -> None:
        """Call the starter, unless only measurements or the version of the pods have changed."""
        if offers_differ(change.before or NO_REPORT, change.after or NO_REPORT):
            self._add()

    def _add(self, _: object = None) -> None:
        self._queue.add_later(_KEY, PASS_SECONDS)


def _share_evaluation(settings: OperatorSettings) -> "ShareEvaluation | None":
    """Return the evaluation of shared GPUs; None if the installation shares no GPUs."""
    if not settings.sharing_judge_seconds:
        return None
    from gputopo_operator.controller.share_evaluation import (  # noqa: PLC0415 - needs numpy
        ShareEvaluation,
    )

    return ShareEvaluation(settings.sharing_policy, settings.resource)
