"""The shell around the decision: reads, decides, writes."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from gputopo.runtime.log import fields
from gputopo_kube.errors import ApiError, ConflictError
from gputopo_operator.controller.cluster import JobApi, JobRefusedError, is_final
from gputopo_operator.decision.decide import FORBIDDEN_RECHECK_S, decide, profile_to_read
from gputopo_operator.metrics import Metrics
from gputopo_operator.model import Event, GpuJob, Key, Object, Plan, Pod, Rules, Snapshot
from gputopo_operator.parse import (
    read_child,
    read_gpu_job,
    read_observed,
    read_pod,
    read_profile,
)

CONFLICT_DELAY_S = 0.2

logger = logging.getLogger(__name__)


def now() -> str:
    """Return the time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Reconciler:
    """Brings one GPUJob after the other to what it should be; blocking.

    Every decision is made from fresh reads: a lost, late or doubled event does no harm.
    """

    def __init__(
        self, cluster: JobApi, rules: Rules, metrics: Metrics, clock: Callable[[], str] = now
    ) -> None:
        self._cluster = cluster
        self._rules = rules
        self._metrics = metrics
        self._clock = clock

    def timed(self, key: Key) -> float | None:
        """Reconcile one GPUJob and count how long it took."""
        start, outcome = time.monotonic(), "error"
        try:
            recheck_after_s = self.reconcile(key)
            outcome = "success"
        finally:
            seconds = time.monotonic() - start
            self._metrics.reconcile_seconds.labels(outcome).observe(seconds)
        return recheck_after_s

    def reconcile(self, key: Key) -> float | None:
        """Look at one GPUJob, act, and return when to look again though no event comes.

        Raises:
            ApiException: where the API server fails; the same call later will do.
        """
        raw = self._cluster.gpu_job(key)
        if raw is None:
            self._metrics.set_phase(key, None)
            return None
        try:
            return self._bring_about(raw)
        except ConflictError as error:
            logger.debug("changed meanwhile %s", fields(gpujob=key, reason=error))
            return CONFLICT_DELAY_S

    def _bring_about(self, raw: Object) -> float | None:
        seen = self._look(read_gpu_job(raw))
        job = seen.job
        plan = self._act(seen, decide(seen, self._rules))
        if plan.status is not None:
            identity = {"uid": job.uid, "resourceVersion": raw["metadata"]["resourceVersion"]}
            patch = {"metadata": identity, "status": plan.status.to_json()}
            self._write_status(raw, job.key, patch, seen.now)
            logger.info("status written %s", fields(gpujob=job.key, phase=plan.status.phase))
        self._metrics.set_phase(job.key, (plan.status or job.status).phase or "Pending")
        # Only now is it certain that this is news: a repeated attempt tells nothing twice.
        for failed in plan.failed_pods:
            self._metrics.count_failure(failed.kind)
        for event in plan.events:
            self._report(raw, event, seen.now)
        return plan.recheck_after_s

    def _write_status(self, raw: Object, key: Key, patch: Object, now: str) -> None:
        try:
            self._cluster.patch_status(key, patch)
        except ApiError as error:
            # Without a status only an event can show that the operator cannot write it.
            if is_final(error):
                note = f"the status of the GPUJob was not written, trying again: {error.message}"
                self._report(raw, Event("Warning", "StatusNotWritten", note), now)
            raise

    def _report(self, raw: Object, event: Event, now: str) -> None:
        """Create an event; nothing depends on it, so a failure is only logged."""
        try:
            self._cluster.create_event(raw, event, now)
        except ApiError as error:
            key = Key(raw["metadata"]["namespace"], raw["metadata"]["name"])
            logger.warning(
                "event not created %s", fields(gpujob=key, event=event.reason, reason=error)
            )

    def _look(self, job: GpuJob) -> Snapshot:
        child = self._cluster.job(job.key)
        pods = tuple(read_pod(pod) for pod in self._cluster.pods(job.key)) if child else ()
        # What a profile says has an effect only on a Job that is created now: pods are immutable.
        name = profile_to_read(job, child)
        profile = self._cluster.profile(Key(job.key.namespace, name)) if name else None
        return Snapshot(
            job=job,
            child=read_child(child) if child else None,
            pods=pods,
            observed=self._observed(pods),
            profile=read_profile(profile) if profile else None,
            refusal=None,
            now=self._clock(),
        )

    def _observed(self, pods: tuple[Pod, ...]) -> dict[str, tuple[str, ...]]:
        held: dict[str, tuple[str, ...]] = {}
        for node in sorted({pod.node for pod in pods if pod.gpus and not pod.over}):
            topology = self._cluster.topology(node)
            if topology is not None:
                held.update(read_observed(topology))
        return held

    def _act(self, seen: Snapshot, plan: Plan) -> Plan:
        """Write all but the status, and return the plan with what is true now."""
        key = seen.job.key
        if plan.create_job is not None:
            try:
                self._cluster.create_job(key, plan.create_job)
            except JobRefusedError as error:
                logger.info("job refused %s", fields(gpujob=key, reason=error))
                return decide(replace(seen, refusal=error.refusal), self._rules)
            logger.info("job made %s", fields(gpujob=key))
        if plan.create_profile is not None:
            plan = self._create_profile(seen, plan, plan.create_profile)
        return plan if plan.job_patch is None else self._patch_job(key, plan, plan.job_patch)

    def _create_profile(self, seen: Snapshot, plan: Plan, name: str) -> Plan:
        key = seen.job.key
        try:
            self._cluster.create_profile(Key(key.namespace, name))
        except ApiError as error:
            logger.warning("profile not created %s", fields(gpujob=key, profile=name, reason=error))
            return decide(replace(seen, profile_error=str(error)), self._rules)
        logger.info("profile created %s", fields(gpujob=key, profile=name))
        return plan

    def _patch_job(self, key: Key, plan: Plan, patch: Object) -> Plan:
        try:
            self._cluster.patch_job(key, patch)
        except ApiError as error:
            if not is_final(error):
                raise
            # The status is written nevertheless: else it would stay as it was, without a reason.
            note = f"Job {key.name} was not changed to {patch['spec']}: {error.message}"
            logger.warning("job not patched %s", fields(gpujob=key, reason=error))
            event = Event("Warning", "JobNotUpdated", note)
            events = (*plan.events, event)
            return replace(plan, events=events, recheck_after_s=FORBIDDEN_RECHECK_S)
        logger.info("job patched %s", fields(gpujob=key, spec=patch["spec"]))
        return plan
