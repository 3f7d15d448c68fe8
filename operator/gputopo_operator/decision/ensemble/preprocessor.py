"""Decides about the preprocessor of an ensemble: a pod that prepares the items of all members.

It has the fewest CPUs whose measured throughput is enough for the members that run. If they need
more, or at most half of them, another Job runs it, and the former Job is suspended when the new one
is ready, so the Service always has a pod. Members that were connected to the former pod must
connect again. There is at most one Job for each number of CPUs. When a Job has ended, Kubernetes
deletes it, and the operator creates it again; no member starts meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.api.ensemble import GPUEnsembleSpec, Preprocessing, PreprocessorStatus
from gputopo.ensemble.preprocessing import PreprocessorChoice, preprocessor_cores
from gputopo_kube.document import Document
from gputopo_operator.decision.conditions import ConditionUpdate, find, truncated
from gputopo_operator.decision.ensemble.members import MemberState, name_taken
from gputopo_operator.decision.ensemble.plans import EnsembleChanges
from gputopo_operator.decision.ensemble.preprocessor_objects import (
    ENDED_SECONDS,
    job_name,
    preprocessor_job,
    preprocessor_service,
)
from gputopo_operator.decision.ensemble.rates import LARGEST, MICRO
from gputopo_operator.model.ensembles import (
    EnsembleInput,
    PreprocessorJob,
    PreprocessorWrites,
    service_name,
)

PREPROCESSED: Final = "Preprocessed"
REJECTED: Final = "PreprocessorRejected"
NOT_READY: Final = "PreprocessorNotReady"
_AGAIN: Final = f"Kubernetes deletes it {ENDED_SECONDS} s after its end, then it is created again"
NO_WRITES: Final = PreprocessorWrites()


@dataclass(frozen=True, slots=True)
class PreprocessorPlan:
    """The preprocessor that the members need now.

    Attributes:
        status: None if no member runs or starts.
        updates: the condition Preprocessed; empty without preprocessing.
        address: IP address and port for the members; empty without preprocessing.
        waits: whether no member may start, because the address is not known or the Job has ended.
    """

    writes: PreprocessorWrites = NO_WRITES
    status: PreprocessorStatus | None = None
    updates: tuple[ConditionUpdate, ...] = ()
    address: str = ""
    waits: bool = False


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
    rates = _demand(members, changes)
    if rates is None:
        stopped = {job.name: True for job in found.preprocessors if job.active}
        update = ConditionUpdate(PREPROCESSED, False, "NoMemberRuns", "")
        return PreprocessorPlan(PreprocessorWrites(suspend=stopped), None, (update,))
    choice = preprocessor_cores(rates, _throughput(wanted), items_are_shared=wanted.shared)
    return _plan(found, wanted, choice)


def _plan(
    found: EnsembleInput, wanted: Preprocessing, choice: PreprocessorChoice
) -> PreprocessorPlan:
    current = _current(found.preprocessors, wanted, choice)
    name = current.name if current else job_name(found.ensemble.key.name, choice.cores)
    ended = next((job for job in found.preprocessors if job.name == name and job.ended), None)
    exists = current is not None or ended is not None
    error = found.preprocessor_error or _service_error(found)
    # Until both exist, the former message stays: they can be rejected as before.
    shown = error or ("" if exists and found.service else _former_error(found))
    status = PreprocessorStatus(
        job=name,
        cores=current.cores if current else choice.cores,
        demand=min(LARGEST, round(choice.demand * MICRO)),
        message=truncated(shown or choice.reason),
    )
    writes = NO_WRITES
    if not error:
        create = () if exists else (preprocessor_job(found.ensemble, wanted, choice.cores),)
        writes = _writes(found, wanted, current, create)
    address = _address(found, wanted)
    update = _condition(current or ended, choice, shown)
    return PreprocessorPlan(writes, status, (update,), address, waits=not address or bool(ended))


def _demand(members: Sequence[MemberState], changes: EnsembleChanges) -> list[float] | None:
    """Return the planned rates of the members that run or start; None if there are none."""
    starting = {each.member for each in changes.start}
    live = [
        changes.members[member.name]
        for member in members
        if member.name in changes.members
        and member.name not in changes.stop
        and (member.name in starting or member.phase in {"Starting", "Running"})
    ]
    return [each.rate for each in live if each.rate is not None] if live else None


def _throughput(wanted: Preprocessing) -> dict[int, float]:
    return {each.cores: float(each.items_per_second) for each in wanted.throughput}


def _current(
    jobs: Sequence[PreprocessorJob], wanted: Preprocessing, choice: PreprocessorChoice
) -> PreprocessorJob | None:
    """Return the Job with enough CPUs and not twice too many; one that runs, if possible."""
    throughput, needed = _throughput(wanted), min(choice.demand, choice.throughput)
    enough = [
        job
        for job in jobs
        if not job.ended
        and (
            job.cores == choice.cores
            or (throughput.get(job.cores, 0) >= needed and job.cores < 2 * choice.cores)
        )
    ]
    return min(enough, key=lambda job: (job.suspended, job.cores), default=None)


def _service_error(found: EnsembleInput) -> str:
    if found.service is None or found.service.owner_uid == found.ensemble.uid:
        return ""
    return name_taken("Service", service_name(found.ensemble.key.name))


def _former_error(found: EnsembleInput) -> str:
    former = find(found.ensemble.status.conditions, PREPROCESSED)
    return former.message if former is not None and former.reason == REJECTED else ""


def _address(found: EnsembleInput, wanted: Preprocessing) -> str:
    """Return the address for the members; empty if the Service does not have one."""
    if found.service is None or not found.service.address or _service_error(found):
        return ""
    host = found.service.address
    return f"[{host}]:{wanted.port}" if ":" in host else f"{host}:{wanted.port}"


def _writes(
    found: EnsembleInput,
    wanted: Preprocessing,
    current: PreprocessorJob | None,
    create: tuple[Document, ...],
) -> PreprocessorWrites:
    suspend = dict[str, bool]()
    service = () if found.service else (preprocessor_service(found.ensemble, wanted),)
    if current is not None and current.suspended:
        suspend = {current.name: False}
    elif current is not None and current.ready:
        former = [job for job in found.preprocessors if job != current and job.active]
        suspend = {job.name: True for job in former}
    # Releases before the time to live have created Jobs without it.
    expire = tuple(job.name for job in found.preprocessors if job.ended and not job.expires)
    return PreprocessorWrites((*service, *create), suspend, expire)


def _condition(
    current: PreprocessorJob | None, choice: PreprocessorChoice, error: str
) -> ConditionUpdate:
    if error:
        return ConditionUpdate(PREPROCESSED, False, REJECTED, error)
    if current is not None and current.ended:
        return ConditionUpdate(PREPROCESSED, False, NOT_READY, f"{current.message}; {_AGAIN}")
    if current is None or not current.ready:
        message = (current.message if current else "") or "its pod is not ready yet"
        return ConditionUpdate(PREPROCESSED, False, NOT_READY, message)
    if choice.reason:
        return ConditionUpdate(PREPROCESSED, True, "DemandNotMet", choice.reason)
    return ConditionUpdate(PREPROCESSED, True, "PreprocessorReady", "")
