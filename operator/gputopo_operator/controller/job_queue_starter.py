"""Carries out the decisions about gputopo's queue: starts child Jobs and writes ``status.queue``.

One worker calls this module for the whole installation, so no two decisions run at the same time.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from gputopo.api.v1alpha1 import QueueStatus
from gputopo.queueing.model import JoinableGpu, Offer, QueueRules
from gputopo.runtime.log import fields
from gputopo.runtime.times import unix_seconds, utc_now
from gputopo_cluster.picture import ClusterPicture
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import ConflictError, DeniedError, NotFoundError
from gputopo_kube.merge_patch import merge_patch
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.job_queue_api import JobQueueApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.pod_creation import PodCreation
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.decision.pod_creation import on_probation, queue_stops, stop_event
from gputopo_operator.decision.queue import jobs_without_pod, queue_plan
from gputopo_operator.decision.queue_status import queue_event
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.model.queued import (
    GpuPod,
    JobStart,
    JobStop,
    QueueChange,
    QueuedJob,
    QueueInput,
    QueuePlan,
)
from gputopo_operator.parse.queue import cluster_of, parse_gpu_pods, parse_queued_jobs

MAX_CHANGES: Final = 20
"""Statuses that one pass writes. When a job starts, all later positions change."""

PASS_SECONDS: Final = 1.0
"""Time between two passes in a row. Many events cause one pass."""

_CHANGED: Final = (ConflictError, NotFoundError)
"""The object was changed or deleted after it was read. A user can cause this in every pass."""

_log = logging.getLogger(__name__)


FindJoins = Callable[
    [Sequence[QueuedJob], Sequence[GpuPod], ClusterPicture],
    Mapping[ObjectKey, frozenset[JoinableGpu]],
]


def no_joins(
    _: Sequence[QueuedJob], __: Sequence[GpuPod], ___: ClusterPicture
) -> Mapping[ObjectKey, frozenset[JoinableGpu]]:
    """Return that no job may join a shared GPU, for installations that share none."""
    return {}


class JobQueueStarter:
    """Starts the jobs of the queue. Its methods block; call ``advance`` in one thread only."""

    def __init__(
        self,
        api: JobQueueApi,
        objects: JobApi,
        nodes: NodeStore,
        metrics: OperatorMetrics,
        rules: QueueRules,
        resource: str,
        clock: Callable[[], str] = utc_now,
        joins: FindJoins = no_joins,
    ) -> None:
        """Let sharing jobs join the GPUs that ``joins`` finds for jobs and pods."""
        self._api = api
        self._objects = objects
        self._nodes = nodes
        self._metrics = metrics
        self._rules = rules
        self._resource = resource
        self._clock = clock
        self._joins = joins
        self._creation = PodCreation(objects, resource)
        self._offers: Mapping[str, Offer] = {}
        self._failed: dict[str, float] = {}

    def advance(self, _: str) -> float | None:
        """Start the jobs that the queue admits; return the seconds until the next call, or None.

        Raises:
            ApiError: a request failed; the caller tries again later.
        """
        found = self._read()
        if self._stop_jobs(found({})):
            found = self._read()
        plan, not_started = self._start_jobs(found)
        self._offers = plan.offers
        self._put_on_probation(plan.failing, self._clock())
        changes = [each for each in plan.changes if each.job.job.key not in not_started]
        written = [self._write(change) for change in changes[:MAX_CHANGES]]
        self._metrics.set_waiting_jobs(plan.waiting + len(not_started), plan.waiting_since)
        if not_started or not all(written):
            return CONFLICT_DELAY_SECONDS
        return PASS_SECONDS if len(changes) > MAX_CHANGES else plan.recheck_after_seconds

    def _stop_jobs(self, found: QueueInput) -> bool:
        """Suspend started jobs whose pods cannot be created; return whether there are any."""
        without = jobs_without_pod(found)
        stops = queue_stops(without, self._creation.errors(without, found.now), found.now)
        self._put_on_probation({stop.job.job.key.namespace for stop in stops}, found.now)
        for stop in stops:
            key = stop.job.job.key
            try:
                self._stop(stop)
            except (*_CHANGED, DeniedError) as error:
                _log.warning("job not suspended %s", fields(gpujob=key, reason=error))
        return bool(stops)

    def _put_on_probation(self, namespaces: AbstractSet[str], now: str) -> None:
        time = unix_seconds(now) or 0.0
        kept = {name: self._failed[name] for name in on_probation(self._failed, time)}
        self._failed = kept | dict.fromkeys(namespaces, time)

    def _stop(self, stop: JobStop) -> None:
        job, raw = stop.job.job, stop.job.raw
        if stop.after is not None:
            patch = merge_patch(_queue_field(job.status.queue), _queue_field(stop.after))
            self._objects.patch_status(raw, {"uid": job.uid}, patch)
        self._objects.patch_job(job.key, stop.patch)
        _log.info("job suspended, its pod was not created %s", fields(gpujob=job.key))
        if stop.after is not None:
            self._metrics.count_failed_start()
            self._objects.create_event(raw, stop_event(stop.after), self._clock())

    def _start_jobs(
        self, found: Callable[[dict[ObjectKey, str]], QueueInput]
    ) -> tuple[QueuePlan, set[ObjectKey]]:
        """Start the jobs of the plan; return the plan, and the jobs to be tried again soon.

        A rejected job keeps its place in the queue, but a new plan gives its GPUs to other jobs. A
        job that was changed since it was read remains in the plan: no other job gets its GPUs.
        """
        tried, changed, rejected = set[ObjectKey](), set[ObjectKey](), dict[ObjectKey, str]()
        while True:  # not endless: each repetition has one more rejected job
            plan = queue_plan(found(rejected), self._rules)
            for start in (each for each in plan.starts if each.key not in tried):
                tried.add(start.key)
                try:
                    self._start(start)
                except _CHANGED as error:
                    _log.debug("job not started %s", fields(gpujob=start.key, reason=error))
                    changed.add(start.key)
                except DeniedError as error:
                    _log.warning("job not started %s", fields(gpujob=start.key, reason=error))
                    rejected[start.key] = f"the Job was not started: {error.message}"
                    break
            else:
                return plan, changed

    def _read(self) -> Callable[[dict[ObjectKey, str]], QueueInput]:
        """Read all objects; return a function that adds rejected jobs to these objects."""
        # Pods are read first: the pod of a job that starts meanwhile counts by its Job.
        pods = parse_gpu_pods(self._api.pods(), self._resource)
        children = self._api.child_jobs()
        jobs = parse_queued_jobs(self._api.gpu_jobs(), children, self._api.priority_classes())
        cluster = cluster_of(self._nodes.gpus(), pods)
        rules, now = self._nodes.rules.values(), self._clock()
        joins = self._joins(jobs, pods, cluster)
        # An operator that starts knows neither; it keeps these GPUs for three minutes more.
        offers, failed = self._offers, self._failed
        return lambda rejected: QueueInput(
            jobs, cluster, rules, pods, now, rejected, joins, offers, failed
        )

    def _start(self, start: JobStart) -> None:
        self._objects.patch_job(start.key, start.patch)
        _log.info("job started %s", fields(gpujob=start.key, spec=start.patch["spec"]))

    def _write(self, change: QueueChange) -> bool:
        """Write ``status.queue``, and an event if the job has begun to wait or has started.

        Returns:
            False if the GPUJob was replaced or deleted since it was read.
        """
        job, raw = change.job.job, change.job.raw
        # Without a resource version, because only this class writes this part of the status.
        try:
            self._objects.patch_status(raw, {"uid": job.uid}, _status_patch(change))
        except _CHANGED as error:
            _log.debug("status not written %s", fields(gpujob=job.key, reason=error))
            return False
        except DeniedError as error:
            _log.warning("status not written %s", fields(gpujob=job.key, reason=error))
            return True
        if change.waited_seconds is not None:
            self._metrics.observe_wait(change.waited_seconds)
        if event := queue_event(self._rules.order, change):
            self._objects.create_event(raw, event, self._clock())
        return True


def _status_patch(change: QueueChange) -> Document:
    before, after = change.job.job.status.queue, change.after
    return merge_patch(_queue_field(before), _queue_field(after))


def _queue_field(status: QueueStatus | None) -> Document:
    return {} if status is None else {"queue": status.to_json()}
