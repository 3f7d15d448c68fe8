"""Reconciles one GPUJob: reads its state, calls the decision and carries out the planned writes.

Each decision uses a GPUJob, its Job and pods that the operator has just read, so lost, late and
repeated events cause no wrong decision. A newer report of a node causes another decision.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from gputopo.api.v1alpha1 import GPUJobStatus
from gputopo.runtime.log import fields
from gputopo.runtime.times import utc_now
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import ApiError, ConflictError, DeniedError
from gputopo_operator.controller.job_api import JobApi, ProfileLimitError
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.pod_creation import read_creation_error
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.decision.decide import decide
from gputopo_operator.decision.job_profile import profile_to_read
from gputopo_operator.decision.link_run_job import link_run_name
from gputopo_operator.decision.link_runs import has_links_to_measure
from gputopo_operator.decision.pod_creation import lacks_pod
from gputopo_operator.decision.rejections import is_permanent
from gputopo_operator.decision.throughput import shown_rate
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.model.jobs import (
    ChildJob,
    GpuJob,
    GpuJobState,
    JobPod,
    LinkRun,
    LinkSet,
    ObjectEvent,
    PodDefaults,
    ReconcilePlan,
    WriteErrors,
)
from gputopo_operator.model.workloads import NodeReport
from gputopo_operator.parse.jobs import (
    job_start,
    parse_child_job,
    parse_gpu_job,
    parse_job_pod,
    parse_link_run,
    parse_profile,
)
from gputopo_operator.parse.samples import by_pod, reported_samples

_Value = TypeVar("_Value")

_log = logging.getLogger(__name__)


class Reconciler:
    """Reconciles GPUJobs. Its methods block; any number of threads may call them."""

    def __init__(
        self,
        api: JobApi,
        nodes: NodeStore,
        defaults: PodDefaults,
        metrics: OperatorMetrics,
        clock: Callable[[], str] = utc_now,
        *,
        queued: bool = False,
    ) -> None:
        """Leave the start of child Jobs to gputopo's queue if ``queued`` is true."""
        self._api = api
        self._nodes = nodes
        self._defaults = defaults
        self._metrics = metrics
        self._clock = clock
        self._queued = queued

    def timed(self, key: ObjectKey) -> float | None:
        """Reconcile one GPUJob and record the duration."""
        start, outcome = time.monotonic(), "error"
        try:
            recheck_after_seconds = self.reconcile(key)
            outcome = "success"
        finally:
            seconds = time.monotonic() - start
            self._metrics.reconcile_seconds.labels(outcome).observe(seconds)
        return recheck_after_seconds

    def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile one GPUJob. Return the seconds until the next reconciliation is due, or None.

        Raises:
            ApiError: a request failed; the caller tries again later.
        """
        raw = self._api.gpu_job(key)
        if raw is None:
            self._metrics.drop_job(key)
            return None
        try:
            return self._reconcile(raw)
        except ConflictError as error:
            _log.debug("write conflict, trying again %s", fields(gpujob=key, reason=error))
            return CONFLICT_DELAY_SECONDS

    def _reconcile(self, raw: Document) -> float | None:
        state = self._read_state(parse_gpu_job(raw))
        plan = decide(state, self._defaults)
        errors = self._write_objects(state.job.key, plan)
        if errors.link_run:  # the job starts without measuring its links
            state = replace(state, errors=errors)
            plan = decide(state, self._defaults)
            errors = replace(self._write_objects(state.job.key, plan), link_run=errors.link_run)
        if errors != state.errors:
            plan = decide(replace(state, errors=errors), self._defaults)
        if plan.status is not None:
            self._write_status(raw, plan.status, state)
        status = plan.status or state.job.status
        self._metrics.set_job(state.job.key, status.phase or "Pending", shown_rate(status))
        # Report these after the status is written, so that a repeated attempt does not report them
        # twice.
        for failed in plan.failed_pods:
            self._metrics.count_failure(failed.kind)
        for event in plan.events:
            self._api.create_event(raw, event, state.now)
        return plan.recheck_after_seconds

    def _read_state(self, job: GpuJob) -> GpuJobState:
        child = self._api.job(job.key)
        measures_links = child is None and has_links_to_measure(job.spec)
        link_runs = self._read_link_runs(job.key) if measures_links else {}
        has_pods = child is not None or bool(link_runs)
        pods = tuple(parse_job_pod(pod) for pod in self._api.pods(job.key)) if has_pods else ()
        name = profile_to_read(job, child)
        profile = self._api.profile(ObjectKey(job.key.namespace, name)) if name else None
        reports, now = self._reports(pods), self._clock()
        parsed = parse_child_job(child) if child else None
        started = job_start(child) if child else None
        return GpuJobState(
            job=job,
            child=parsed,
            pods=pods,
            observed=_merged(each.used for each in reports),
            measured=_merged(each.measured for each in reports),
            profile=parse_profile(profile, complete=measures_links) if profile else None,
            now=now,
            link_runs=link_runs,
            samples=(
                _merged(by_pod(reported_samples(each)) for each in reports) if link_runs else {}
            ),
            queued=self._queued,
            started=started,
            pod_error=self._pod_error(job, parsed, started, pods, now),
        )

    def _pod_error(
        self,
        job: GpuJob,
        child: ChildJob | None,
        started: str | None,
        pods: Iterable[JobPod],
        now: str,
    ) -> str:
        """Return why a Job has no pod; empty if it has one, or if no error is known."""
        if child is None or not lacks_pod(started, None, now):
            return ""
        if any(pod.view.live and pod.job_uid == child.uid for pod in pods):
            return ""
        return read_creation_error(self._api, job, child, (started,), now)

    def _read_link_runs(self, key: ObjectKey) -> dict[LinkSet, LinkRun]:
        """Return the Jobs that measure the links of a GPUJob before its child Job is created."""
        names = {kind: link_run_name(key.name, kind) for kind in LinkSet}
        found = {kind: self._api.job(ObjectKey(key.namespace, names[kind])) for kind in names}
        return {kind: parse_link_run(raw) for kind, raw in found.items() if raw is not None}

    def _reports(self, pods: tuple[JobPod, ...]) -> list[NodeReport]:
        """Return the reports of the nodes of all live pods with GPUs."""
        nodes = sorted({pod.gpus.node for pod in pods if pod.gpus and pod.view.live})
        return [self._nodes.report(node) for node in nodes]

    def _write_objects(self, key: ObjectKey, plan: ReconcilePlan) -> WriteErrors:
        """Write the Jobs and the GPUProfile; return the messages about rejected writes."""
        errors = WriteErrors()
        if plan.create_job is not None:
            errors = self._create_job(key, plan.create_job)
            if errors.job:
                return errors
        if plan.create_profile is not None:
            errors = replace(errors, profile=self._create_profile(key, plan.create_profile))
        if plan.job_patch is not None:
            errors = replace(errors, job_patch=self._patch_job(key, plan.job_patch))
        if plan.create_link_run is not None:
            created = self._create_job(key, plan.create_link_run)
            errors = replace(errors, link_run=created.job)
        if plan.link_run_patch is not None:
            name, patch = plan.link_run_patch
            self._api.patch_job(ObjectKey(key.namespace, name), patch)
        if plan.pod_patch is not None:
            errors = replace(errors, pod_patch=self._patch_pod(key, *plan.pod_patch))
        return errors

    def _create_job(self, key: ObjectKey, manifest: Document) -> WriteErrors:
        try:
            self._api.create_job(key, manifest)
        except DeniedError as error:
            _log.info("job rejected %s", fields(gpujob=key, reason=error))
            permanent = is_permanent(error.status, error.message)
            return WriteErrors(job=error.message, job_is_permanent=permanent)
        _log.info("job created %s", fields(gpujob=key, job=manifest["metadata"]["name"]))
        return WriteErrors()

    def _create_profile(self, key: ObjectKey, name: str) -> str:
        try:
            self._api.create_profile(ObjectKey(key.namespace, name))
        except (ApiError, ProfileLimitError) as error:
            _log.warning("profile not created %s", fields(gpujob=key, profile=name, reason=error))
            if isinstance(error, DeniedError | ProfileLimitError):
                self._metrics.count_rejected_profile()
            return str(error)
        _log.info("profile created %s", fields(gpujob=key, profile=name))
        return ""

    def _patch_job(self, key: ObjectKey, patch: Document) -> str:
        try:
            self._api.patch_job(key, patch)
        except DeniedError as error:
            _log.warning("job not patched %s", fields(gpujob=key, reason=error))
            return error.message
        _log.info("job patched %s", fields(gpujob=key, spec=patch["spec"]))
        return ""

    def _patch_pod(self, key: ObjectKey, pod: str, patch: Document) -> str:
        try:
            self._api.patch_pod_metadata(ObjectKey(key.namespace, pod), patch)
        except DeniedError as error:
            _log.warning("pod not patched %s", fields(gpujob=key, pod=pod, reason=error))
            return error.message
        _log.info("pod patched %s", fields(gpujob=key, pod=pod))
        return ""

    def _write_status(self, raw: Document, status: GPUJobStatus, state: GpuJobState) -> None:
        key, job = state.job.key, state.job
        before = raw["status"] if job.status_error else job.status.to_json()
        try:
            self._api.write_status(raw, before, status.to_json())
        except DeniedError as error:
            # If the operator cannot write the status, only an event can report this.
            note = f"the status of the GPUJob was not written, trying again: {error.message}"
            event = ObjectEvent("Warning", "StatusNotWritten", note)
            self._api.create_event(raw, event, state.now)
            raise
        _log.info("status written %s", fields(gpujob=key, phase=status.phase))


def _merged(parts: Iterable[Mapping[str, _Value]]) -> dict[str, _Value]:
    return dict(chain.from_iterable(part.items() for part in parts))
