"""Decides about the preprocessor of an ensemble: a pod that prepares the items of all members.

Each flotilla gets a Job with the fewest CPUs whose measured throughput is enough. The Job of the
former flotilla is suspended when the new one is ready, so the Service always has a pod. Members
that were connected to the former pod must connect again.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.api.ensemble import GPUEnsembleSpec, Preprocessing, PreprocessorStatus
from gputopo.api.names import (
    ENSEMBLE_LABEL,
    ENSEMBLE_PREPROCESSOR_LABEL,
    PREPROCESSOR_VARIABLE,
)
from gputopo.ensemble.preprocessing import PreprocessorChoice, preprocessor_cores
from gputopo_kube.document import Document
from gputopo_operator.decision.conditions import ConditionUpdate, truncated
from gputopo_operator.decision.ensemble.members import MemberState
from gputopo_operator.decision.ensemble.plans import EnsembleChanges
from gputopo_operator.decision.ensemble.rates import MICRO
from gputopo_operator.decision.owner import owner_reference
from gputopo_operator.ensembles import (
    Ensemble,
    EnsembleInput,
    PreprocessorJob,
    PreprocessorWrites,
)

PREPROCESSED: Final = "Preprocessed"
NO_WRITES: Final = PreprocessorWrites()
_RETRIES: Final = 1000


@dataclass(frozen=True, slots=True)
class PreprocessorPlan:
    """The preprocessor that the members need now.

    Attributes:
        status: None if no member runs or starts.
        updates: the condition Preprocessed; empty without preprocessing.
    """

    writes: PreprocessorWrites = NO_WRITES
    status: PreprocessorStatus | None = None
    updates: tuple[ConditionUpdate, ...] = ()


def preprocessor_plan(
    found: EnsembleInput,
    spec: GPUEnsembleSpec,
    members: Sequence[MemberState],
    changes: EnsembleChanges,
) -> PreprocessorPlan:
    """Return the preprocessor for the members that run and start."""
    wanted = spec.preprocessing
    if wanted is None:
        return PreprocessorPlan()
    flotilla, rates = _demand(members, changes)
    if not flotilla:
        stopped = {job.name: True for job in found.preprocessors if not job.suspended}
        update = ConditionUpdate(PREPROCESSED, False, "NoMemberRuns", "")
        return PreprocessorPlan(PreprocessorWrites(suspend=stopped), None, (update,))
    choice = _choice(wanted, rates)
    name = f"{service_name(found.ensemble.key.name)}-{flotilla}"
    current = next((job for job in found.preprocessors if job.name == name), None)
    cores = current.cores if current else choice.cores
    status = PreprocessorStatus(
        job=name,
        cores=cores,
        demand=round(choice.demand * MICRO),
        message=truncated(found.preprocessor_error or choice.reason),
    )
    if current is None and found.preprocessor_error:
        return PreprocessorPlan(PreprocessorWrites(), status, (_condition(found, None, choice),))
    writes = _writes(found, wanted, current, name, flotilla, cores)
    return PreprocessorPlan(writes, status, (_condition(found, current, choice),))


def service_name(ensemble: str) -> str:
    """Return the name of the Service of the preprocessor."""
    return f"{ensemble}-preprocessor"


def with_address(job: Document, ensemble: str, wanted: Preprocessing | None) -> Document:
    """Return the GPUJob of a member whose containers know the address of the preprocessor.

    Kubelet replaces the variable of the Service by its address, also in a cluster without DNS.
    """
    if wanted is None:
        return job
    changed = copy.deepcopy(job)
    host = f"{service_name(ensemble).upper().replace('-', '_')}_SERVICE_HOST"
    variable = {"name": PREPROCESSOR_VARIABLE, "value": f"$({host}):{wanted.port}"}
    for container in changed["spec"]["template"]["spec"].get("containers") or ():
        container["env"] = [*(container.get("env") or ()), variable]
    return changed


def _demand(members: Sequence[MemberState], changes: EnsembleChanges) -> tuple[int, list[float]]:
    """Return the newest flotilla that runs or starts, and the planned rates of all that do."""
    starting = {each.member for each in changes.start}
    live = [
        changes.members[member.name]
        for member in members
        if member.name in changes.members
        and member.name not in changes.stop
        and (member.name in starting or member.phase in {"Starting", "Running"})
    ]
    flotilla = max((each.flotilla or 0 for each in live), default=0)
    return flotilla, [each.rate for each in live if each.rate is not None]


def _choice(wanted: Preprocessing, rates: Sequence[float]) -> PreprocessorChoice:
    throughput = {each.cores: float(each.items_per_second) for each in wanted.throughput}
    known = {cores: rate for cores, rate in throughput.items() if rate > 0} or {1: 1.0}
    return preprocessor_cores(rates, known, items_are_shared=wanted.shared)


def _writes(
    found: EnsembleInput,
    wanted: Preprocessing,
    current: PreprocessorJob | None,
    name: str,
    flotilla: int,
    cores: int,
) -> PreprocessorWrites:
    if current is None:
        ensemble = found.ensemble
        job = _job(ensemble, wanted, name, flotilla, cores)
        return PreprocessorWrites((_service(ensemble, wanted), job))
    if current.suspended:
        return PreprocessorWrites(suspend={name: False})
    former = [job for job in found.preprocessors if job.name != name and not job.suspended]
    return PreprocessorWrites(suspend={job.name: True for job in former if current.ready})


def _condition(
    found: EnsembleInput, current: PreprocessorJob | None, choice: PreprocessorChoice
) -> ConditionUpdate:
    if found.preprocessor_error:
        message = found.preprocessor_error
        return ConditionUpdate(PREPROCESSED, False, "PreprocessorRejected", message)
    if current is None or not current.ready:
        return ConditionUpdate(PREPROCESSED, False, "PreprocessorNotReady", "")
    if choice.reason:
        return ConditionUpdate(PREPROCESSED, True, "DemandNotMet", choice.reason)
    return ConditionUpdate(PREPROCESSED, True, "PreprocessorReady", "")


def _service(ensemble: Ensemble, wanted: Preprocessing) -> Document:
    name = service_name(ensemble.key.name)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": ensemble.key.namespace,
            "labels": {ENSEMBLE_LABEL: ensemble.key.name},
            "ownerReferences": [owner_reference("GPUEnsemble", ensemble)],
        },
        "spec": {
            "selector": {ENSEMBLE_LABEL: ensemble.key.name, "app": name},
            "ports": [{"name": "items", "port": wanted.port, "targetPort": wanted.port}],
        },
    }


def _job(
    ensemble: Ensemble, wanted: Preprocessing, name: str, flotilla: int, cores: int
) -> Document:
    labels = {ENSEMBLE_LABEL: ensemble.key.name, ENSEMBLE_PREPROCESSOR_LABEL: str(flotilla)}
    template = copy.deepcopy(wanted.template)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        **labels,
        "app": service_name(ensemble.key.name),
    }
    pod = template["spec"]
    pod["restartPolicy"] = "OnFailure"
    resources = pod["containers"][0].setdefault("resources", {})
    for kind in ("requests", "limits"):
        resources[kind] = {**(resources.get(kind) or {}), "cpu": str(cores)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": ensemble.key.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference("GPUEnsemble", ensemble)],
        },
        "spec": {"backoffLimit": _RETRIES, "template": template},
    }
