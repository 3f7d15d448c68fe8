"""The shell around the decision: reads, decides, writes."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from gputopo.runtime.log import fields
from gputopo_operator.cluster import Cluster, ConflictError, JobRefusedError
from gputopo_operator.decide import decide
from gputopo_operator.metrics import Metrics
from gputopo_operator.model import GpuJob, Key, Object, Plan, Pod, Rules, Snapshot
from gputopo_operator.reading import (
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
        self, cluster: Cluster, rules: Rules, metrics: Metrics, clock: Callable[[], str] = now
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
            self._cluster.patch_status(job.key, patch)
            logger.info("status written %s", fields(gpujob=job.key, phase=plan.status.phase))
        self._metrics.set_phase(job.key, (plan.status or job.status).phase or "Pending")
        # Only now is it certain that this is news: a repeated attempt tells nothing twice.
        for failed in plan.failed_pods:
            self._metrics.count_failure(failed.kind)
        for event in plan.events:
            self._cluster.create_event(raw, event, seen.now)
        return plan.recheck_after_s

    def _look(self, job: GpuJob) -> Snapshot:
        child = self._cluster.job(job.key)
        pods = tuple(read_pod(pod) for pod in self._cluster.pods(job.key)) if child else ()
        # The profile speaks when the child Job is made, and then no more: its pods are fixed.
        name = job.spec.workload.profile if job.spec and child is None else None
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
        if plan.create_profile is not None:
            self._cluster.create_profile(Key(key.namespace, plan.create_profile))
            logger.info("profile made %s", fields(gpujob=key, profile=plan.create_profile))
        if plan.create_job is not None:
            try:
                self._cluster.create_job(key, plan.create_job)
            except JobRefusedError as error:
                logger.info("job refused %s", fields(gpujob=key, reason=error))
                return decide(replace(seen, refusal=error.refusal), self._rules)
            logger.info("job made %s", fields(gpujob=key))
        if plan.job_patch is not None:
            self._cluster.patch_job(key, plan.job_patch)
            logger.info("job patched %s", fields(gpujob=key, spec=plan.job_patch["spec"]))
        return plan
