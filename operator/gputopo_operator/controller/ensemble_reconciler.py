"""Reconciles one GPUEnsemble: reads its state, calls the decision and carries out the writes.

One worker calls this module for all ensembles of the installation, so no two ensembles plan with
the same free GPUs at the same time.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gputopo.api.profile import ScalingFact
from gputopo.runtime.log import fields
from gputopo.runtime.times import utc_now
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import AlreadyExistsError, ConflictError, DeniedError, NotFoundError
from gputopo_operator.controller.ensemble_api import EnsembleApi
from gputopo_operator.controller.ensemble_snapshot import EnsembleSnapshots
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.decision.ensemble.decide import decide_ensemble
from gputopo_operator.decision.ensemble.inputs import EnsembleObjects, ensemble_input
from gputopo_operator.decision.ensemble.members import name_taken
from gputopo_operator.decision.ensemble.preprocessor_objects import ENDED_SECONDS
from gputopo_operator.decision.rejections import is_permanent
from gputopo_operator.ensemble_metrics import EnsembleMetrics
from gputopo_operator.model.ensembles import (
    Ensemble,
    EnsembleInput,
    EnsembleWrites,
    PreprocessorService,
    PreprocessorWrites,
)
from gputopo_operator.model.jobs import ObjectEvent
from gputopo_operator.parse.ensemble_spec import parse_ensemble
from gputopo_operator.parse.ensembles import parse_scaling
from gputopo_operator.parse.preprocessors import parse_preprocessors, parse_service

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Rejections:
    errors: Mapping[str, str]
    for_good: frozenset[str]
    preprocessor: str


class EnsembleReconciler:
    """Reconciles GPUEnsembles. Its methods block; call ``reconcile`` in one thread only."""

    def __init__(
        self,
        api: EnsembleApi,
        objects: JobApi,
        nodes: NodeStore,
        metrics: EnsembleMetrics,
        resource: str,
        clock: Callable[[], str] = utc_now,
        *,
        shared_seconds: float = 0.0,
    ) -> None:
        """Start members on ``nodes``; ``resource`` is the extended resource that counts GPUs.

        Decisions of different ensembles use the same objects for ``shared_seconds``, if no decision
        writes and ``expire`` is not called.
        """
        self._api = api
        self._objects = objects
        self._metrics = metrics
        self._clock = clock
        self._snapshots = EnsembleSnapshots(api, nodes, resource, shared_seconds)
        self.expire = self._snapshots.expire

    def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile one GPUEnsemble. Return the seconds until the next one is due, or None.

        Raises:
            ApiError: a request failed; the caller tries again later.
        """
        raw = self._api.ensemble(key)
        if raw is None:
            self._metrics.drop(key)
            return None
        try:
            return self._reconcile(raw)
        except (ConflictError, NotFoundError) as error:
            _log.debug("write conflict, trying again %s", fields(gpuensemble=key, reason=error))
            return CONFLICT_DELAY_SECONDS

    def _reconcile(self, raw: Document) -> float | None:
        ensemble = parse_ensemble(raw)
        if ensemble.deleting or ensemble.status.phase in {"Succeeded", "Failed"}:
            self._metrics.show(ensemble.key, ensemble.status)
            self._suspend_preprocessors(ensemble)
            return None
        found = self._read(ensemble)
        writes = decide_ensemble(found)
        raw = self._write_status(raw, ensemble, writes)
        rejections = self._carry_out(ensemble.key.namespace, writes)
        started = [each for name, each in writes.started.items() if name not in rejections.errors]
        self._report(raw, (*writes.events, *started), found.now)
        status = writes.status or ensemble.status
        plan = writes.status.plan if writes.status else None
        if plan is not None and plan.time == found.now:
            self._metrics.count_plan()
        if rejections.errors or rejections.preprocessor:
            rejected = replace(
                found,
                ensemble=replace(ensemble, status=status),
                errors=rejections.errors,
                rejected=rejections.for_good,
                preprocessor_error=rejections.preprocessor,
            )
            writes = decide_ensemble(rejected)
            raw = self._write_status(raw, rejected.ensemble, writes)
            self._report(raw, writes.events, found.now)
            status = writes.status or status
        self._metrics.show(ensemble.key, status)
        return writes.recheck_after_seconds

    def _read(self, ensemble: Ensemble) -> EnsembleInput:
        found = self._snapshots.read(ensemble.key)
        preprocessor_pods, service = self._read_preprocessor(ensemble)
        objects = EnsembleObjects(
            jobs=found.jobs,
            remains=found.remains,
            pods=found.pods,
            cluster=found.cluster,
            rules=found.rules,
            facts=self._read_facts(ensemble),
            measured=found.measured,
            preprocessors=parse_preprocessors(found.preprocessors, preprocessor_pods),
            service=service,
            ensembles=found.uids,
        )
        return ensemble_input(ensemble, objects, self._clock())

    def _read_preprocessor(
        self, ensemble: Ensemble
    ) -> tuple[list[Document], PreprocessorService | None]:
        if ensemble.spec is None or ensemble.spec.preprocessing is None:
            return [], None
        pods = self._api.preprocessor_pods(ensemble.key)
        return pods, parse_service(self._api.service(ensemble.key))

    def _read_facts(self, ensemble: Ensemble) -> dict[str, tuple[ScalingFact, ...]]:
        members = ensemble.spec.members if ensemble.spec else []
        facts = {}
        for name in sorted({each.profile for each in members if each.profile}):
            raw = self._objects.profile(ObjectKey(ensemble.key.namespace, name))
            facts[name] = parse_scaling(raw) if raw is not None else ()
        return facts

    def _write_status(self, raw: Document, ensemble: Ensemble, writes: EnsembleWrites) -> Document:
        """Write the status; return the object with its new resource version."""
        if writes.status is None:
            return raw
        before = raw["status"] if ensemble.status_error else ensemble.status.to_json()
        after = self._objects.write_status(raw, before, writes.status.to_json())
        _log.info("status written %s", fields(gpuensemble=ensemble.key, phase=writes.status.phase))
        return after

    def _carry_out(self, namespace: str, writes: EnsembleWrites) -> _Rejections:
        """Write the preprocessor and the GPUJobs; return the messages about rejected ones."""
        if writes.delete or writes.create or writes.preprocessor != PreprocessorWrites():
            self.expire()  # other ensembles must see these writes
        preprocessor_error = self._write_preprocessor(namespace, writes.preprocessor)
        for deletion in writes.delete:
            self._api.delete_gpu_job(deletion)
            _log.info("member stopped %s", fields(gpujob=deletion.key))
        errors: dict[str, str] = {}
        for_good = set[str]()
        for member, manifest in writes.create.items():
            name = manifest["metadata"]["name"]
            try:
                self._api.create_gpu_job(manifest)
            except AlreadyExistsError:
                errors[member] = name_taken("GPUJob", name)
            except (ConflictError, DeniedError) as error:
                errors[member] = f"GPUJob {name} was rejected: {error.message}"
                if is_permanent(error.status, error.message):
                    for_good.add(member)
            else:
                gpus = manifest["spec"]["gpusPerReplica"]
                _log.info("member started %s", fields(gpujob=name, gpus=gpus))
        return _Rejections(errors, frozenset(for_good), preprocessor_error)

    def _suspend_preprocessors(self, ensemble: Ensemble) -> None:
        """Suspend what still runs of an ensemble that has ended."""
        if ensemble.spec is None or ensemble.spec.preprocessing is None or ensemble.deleting:
            return
        jobs = parse_preprocessors(self._api.member_children()).get(ensemble.uid, ())
        running = {job.name: True for job in jobs if job.active}
        self._write_preprocessor(ensemble.key.namespace, PreprocessorWrites(suspend=running))

    def _write_preprocessor(self, namespace: str, writes: PreprocessorWrites) -> str:
        """Create, suspend, continue and expire Jobs; return the message if one was rejected."""
        for manifest in writes.create:
            try:
                self._api.create_preprocessor(manifest)
            except AlreadyExistsError:
                return name_taken(manifest["kind"], manifest["metadata"]["name"])
            except (ConflictError, DeniedError) as error:
                kind, name = manifest["kind"], manifest["metadata"]["name"]
                return f"{kind} {name} was rejected: {error.message}"
        for name, suspended in writes.suspend.items():
            key = ObjectKey(namespace, name)
            self._objects.patch_job(key, {"spec": {"suspend": suspended}})
            _log.info("preprocessor %s", fields(job=key, suspended=suspended))
        for name in writes.expire:
            seconds = {"ttlSecondsAfterFinished": ENDED_SECONDS}
            self._objects.patch_job(ObjectKey(namespace, name), {"spec": seconds})
        return ""

    def _report(self, raw: Document, events: Iterable[ObjectEvent], now: str) -> None:
        for event in events:
            self._objects.create_event(raw, event, now)
