"""The part of the operator for GPUJobs and GPUProfiles: each watch event adds a key to a queue."""

from typing import Final

import kopf

from gputopo.api.names import GROUP, JOB_LABEL, VERSION
from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.parts import Loops, OperatorPart, PartInputs
from gputopo_operator.controller.profile_reconciler import ProfileReconciler
from gputopo_operator.controller.queues import Queues
from gputopo_operator.controller.reconciler import Reconciler
from gputopo_operator.controller.resync import Resync
from gputopo_operator.metrics import OperatorLoop
from gputopo_operator.model.jobs import PodDefaults
from gputopo_operator.settings import OperatorSettings

PROFILE_WORKERS: Final = 2
"""GPUProfiles that are reconciled at the same time."""

JOB_REST_SECONDS: Final = 0.2
"""Time from one reconciliation of a GPUJob to the next.

While a job starts, its Job and its pod change about six times within 0.2 s. Each reconciliation
sends three requests, which would compete with the start of the pod.
"""


class GpuJobQueue(OperatorPart):
    """Reconciles GPUJobs and GPUProfiles after changes, and periodically."""

    @staticmethod
    def workers(settings: OperatorSettings) -> int:
        """Return the workers of both queues."""
        return settings.workers + PROFILE_WORKERS

    def __init__(self, found: PartInputs) -> None:
        self._settings = settings = found.settings
        self._nodes = found.nodes
        shares, queued = settings.sharing_judge_seconds > 0, bool(settings.queue_order)
        defaults = PodDefaults(settings.resource, settings.scheduler_name, shares)
        reconciler = Reconciler(found.objects, found.nodes, defaults, found.metrics, queued=queued)
        profiles = ProfileReconciler(found.objects, found.nodes, found.metrics)
        self._queues = Queues(
            found.queue(reconciler.timed, OperatorLoop.GPUJOBS, JOB_REST_SECONDS),
            found.queue(profiles.reconcile, OperatorLoop.GPUPROFILES),
            namespaces=settings.namespace_names,
            profile_delay_seconds=settings.profile_delay_seconds,
        )
        found.metrics.watch_queues(self._queues.jobs.__len__, self._queues.profiles.__len__)
        self._resync = Resync(found.objects, self._queues, found.metrics, settings.namespace_names)

    def watch(self, registry: kopf.OperatorRegistry) -> None:
        """Register the watches of GPUJobs, their Jobs and pods, and of GPUProfiles."""
        queues = self._queues
        self._nodes.reports.subscribe(queues.report_changed)

        @kopf.on.event(GROUP, VERSION, "gpujobs", registry=registry)
        async def gpu_job_changed(namespace: str | None, name: str, **_: object) -> None:
            queues.jobs.add(ObjectKey(namespace or "", name))

        @kopf.on.event("batch", "v1", "jobs", labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
        async def child_changed(namespace: str | None, labels: kopf.Labels, **_: object) -> None:
            queues.jobs.add(ObjectKey(namespace or "", labels[JOB_LABEL]))

        @kopf.on.event("", "v1", "pods", labels={JOB_LABEL: kopf.PRESENT}, registry=registry)
        async def pod_changed(
            event: kopf.RawEvent, uid: str, namespace: str | None, labels: kopf.Labels, **_: object
        ) -> None:
            job = ObjectKey(namespace or "", labels[JOB_LABEL])
            queues.pod_changed(uid, job, deleted=event["type"] == "DELETED")

        @kopf.on.event(GROUP, VERSION, "gpuprofiles", registry=registry)
        async def profile_changed(namespace: str | None, name: str, **_: object) -> None:
            queues.profiles.add(ObjectKey(namespace or "", name))

    def loops(self) -> Loops:
        """Return the workers of the queues, and the resync."""
        return (
            self._queues.jobs.run(self._settings.workers),
            self._queues.profiles.run(PROFILE_WORKERS),
            self._resync.run(self._settings.resync_seconds),
        )
