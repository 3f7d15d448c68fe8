"""Derives the state of each member from its GPUJob, its pod and the former status."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gputopo.api.ensemble import (
    EnsembleMemberSpec,
    EnsembleMemberStatus,
    GPUEnsembleSpec,
    MemberPhase,
)
from gputopo.ensemble.model import EnsembleMember, MemberPlacement, NodeGpuCount
from gputopo.ensemble.rates import MemberRates
from gputopo_operator.decision.ensemble.progress import Progress, progress_of
from gputopo_operator.decision.ensemble.rates import (
    MICRO,
    known_rates,
    limited_by_others,
    measured_items,
    total_items,
    with_measured,
)
from gputopo_operator.decision.pod_creation import FailedStarts, after_failed_start
from gputopo_operator.model.ensembles import EnsembleInput, MemberJob

ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member of an ensemble.

    Attributes:
        before: its status before this decision.
        job: its GPUJob; None if there is none that the ensemble owns.
        message: what it waits for, or why it has failed.
        free_to_start: whether its GPUJob can be created now.
        rates: known rates, corrected by the measured one.
        measured: measured items per second of its pod; None if unknown.
        own_rate: ``measured``; None while it is lower because of other members.
        progress: the items that it has processed.
        total: items until it ends; None if unknown.
        starting_since: since when its GPUJob has no pod on a node; None if it has one, or if there
            is no GPUJob.
        failed: its starts in a row after which no pod could be created.
    """

    spec: EnsembleMemberSpec
    before: EnsembleMemberStatus
    job: MemberJob | None
    phase: MemberPhase
    message: str
    free_to_start: bool
    rates: MemberRates | None
    measured: float | None
    own_rate: float | None
    progress: Progress
    total: int | None
    starting_since: str | None
    failed: FailedStarts

    @property
    def name(self) -> str:
        """Name of the member."""
        return self.spec.name

    @property
    def ended(self) -> bool:
        """Whether it has succeeded, or failed for good."""
        return self.phase in ENDED

    @property
    def bound(self) -> bool:
        """Whether its pod is on a node, and is not being deleted."""
        pod = self.job.pod if self.job else None
        return pod is not None and pod.node is not None and not pod.deleting

    @property
    def node(self) -> str | None:
        """Node of its pod, or the planned one."""
        if self.job is None:
            return None
        return (self.job.pod.node if self.job.pod else None) or self.job.node

    @property
    def placement(self) -> MemberPlacement:
        """The GPUs of its GPUJob; on no node if the node is unknown."""
        gpus = self.job.gpus if self.job else 0
        nodes = (NodeGpuCount(self.node, gpus),) if self.node else ()
        return MemberPlacement(self.name, nodes)

    @property
    def planned(self) -> EnsembleMember:
        """The member as the planner needs it."""
        left = None if self.total is None else float(max(0, self.total - self.progress.done))
        rates, gpus = self.rates, self.placement.gpus
        if self.job is not None and rates and not rates.least <= gpus <= rates.most:
            rates = None
        return EnsembleMember(self.name, rates, left, self.spec.max_gpus)


def member_states(found: EnsembleInput, spec: GPUEnsembleSpec) -> tuple[MemberState, ...]:
    """Return all members in the order of the spec."""
    before = {each.name: each for each in found.ensemble.status.members}
    measured = {member.name: _measured(found, member) for member in spec.members}
    limited = limited_by_others(spec, measured)
    return tuple(
        _member(found, spec, member, before, measured[member.name], limited=member.name in limited)
        for member in spec.members
    )


def _measured(found: EnsembleInput, member: EnsembleMemberSpec) -> float | None:
    job = _own_job(found, member.name)
    return measured_items(member, found.measured.get(job.pod.uid)) if job and job.pod else None


def _own_job(found: EnsembleInput, member: str) -> MemberJob | None:
    job = found.jobs.get(member)
    return job if job is not None and job.owner_uid == found.ensemble.uid else None


def _member(
    found: EnsembleInput,
    spec: GPUEnsembleSpec,
    member: EnsembleMemberSpec,
    known: Mapping[str, EnsembleMemberStatus],
    measured: float | None,
    *,
    limited: bool,
) -> MemberState:
    before = known.get(member.name) or EnsembleMemberStatus(name=member.name, phase="Waiting")
    phase, message, free = _phase(found, member.name, before, found.jobs.get(member.name))
    job = _own_job(found, member.name)
    pod = job.pod if job else None
    # The number of GPUs with which it runs, or will run again.
    gpus = job.gpus if job else before.gpus if before.pod_uid else None
    planned = before.planned / MICRO if before.planned and before.gpus == gpus else None
    own = None if limited and planned and measured and measured < planned else measured
    rates = known_rates(member, found.facts.get(member.profile or "", ()))
    if gpus is not None:
        # While the rate is not steady, that of the plan stays right.
        rates = with_measured(rates, gpus, own or planned, spec.rate_difference_percent / 100)
    starts = phase == "Starting" and job is not None and (pod is None or pod.node is None)
    return MemberState(
        spec=member,
        before=before,
        job=job,
        phase=phase,
        message=message,
        free_to_start=free,
        rates=rates,
        measured=measured,
        own_rate=own,
        progress=progress_of(spec, before, pod, measured, found.now),
        total=total_items(member, spec),
        starting_since=before.starting_since or found.now if starts else None,
        failed=_failed(before, job, phase, found.now),
    )


def failed_starts(before: EnsembleMemberStatus) -> FailedStarts:
    """Return the failed starts that the status of a member has."""
    return FailedStarts(before.pod_error, before.failed_starts, before.not_before)


def _failed(
    before: EnsembleMemberStatus, job: MemberJob | None, phase: MemberPhase, now: str
) -> FailedStarts:
    """Return the failed starts of a member, with the current one; none if it got a pod."""
    known = failed_starts(before)
    if phase in ENDED or (job is not None and job.pod is not None):
        return FailedStarts()
    if known.delays(now):
        return known
    if phase == "Starting" and job is not None and job.pod_error:
        return after_failed_start(known, job.pod_error, now)
    return known._replace(not_before=None)


def _phase(
    found: EnsembleInput, name: str, before: EnsembleMemberStatus, job: MemberJob | None
) -> tuple[MemberPhase, str, bool]:
    """Return phase and message, and whether the GPUJob can be created now."""
    if before.phase in ENDED:
        return before.phase, before.message, False
    if name in found.rejected:
        return "Failed", found.errors[name], False
    remains = found.remains.get(name, "")
    if job is None:
        error = found.errors.get(name, "")
        return ("Stopping", remains, False) if remains else ("Waiting", error, not error)
    if job.owner_uid != found.ensemble.uid:
        return "Waiting", name_taken("GPUJob", job.name), False
    return *_phase_of_job(job, remains), False


def name_taken(kind: str, name: str) -> str:
    """Return the message about an object of another owner with a name that the ensemble needs."""
    return (
        f"{kind} {name} exists, but this GPUEnsemble does not own it; delete that {kind}, or "
        "create the GPUEnsemble with another name"
    )


def _phase_of_job(job: MemberJob, remains: str) -> tuple[MemberPhase, str]:
    if job.result is not None:
        failure = f"{job.result.reason}: {job.result.message}"
        return ("Succeeded", "") if job.result.succeeded else ("Failed", failure)
    if job.deleting:
        return "Stopping", remains or f"GPUJob {job.name} is being deleted"
    running = job.pod is not None and job.pod.running and not job.pod.deleting
    return ("Running", "") if running else ("Starting", job.message)
