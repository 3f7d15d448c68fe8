"""The state of a GPUJob with a child Job, as the rules of its features see it.

A feature adds conditions by a rule of type ``ConditionRule``, and writes by one of type
``PlanRule``. ``decide`` lists the rules, and knows nothing else of the features.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus, JobPlacement
from gputopo_operator.decision.conditions import COMPLETE, FAILED, ConditionUpdate
from gputopo_operator.decision.failures import FailureCounts, count_failures, exceeded_limit
from gputopo_operator.decision.placements import current_pod, job_placement
from gputopo_operator.model.jobs import ChildJob, GpuJobState, JobPod, JobResult, ReconcilePlan
from gputopo_operator.parse.jobs import QUEUE_LABEL


@dataclass(frozen=True, slots=True)
class JobSituation:
    """A GPUJob, its child Job and its current pod.

    Attributes:
        child: the existing Job, or the Job that the plan creates, which has no UID.
        pod: the newest pod of the child Job; None if there is none.
        place: the placement of ``pod``; None if the extender has not chosen its GPUs yet.
        counts: the failures of all pods so far.
        result: None until the job has ended. A stored result never changes.
    """

    state: GpuJobState
    spec: GPUJobSpec
    child: ChildJob
    pod: JobPod | None
    place: JobPlacement | None
    counts: FailureCounts
    result: JobResult | None

    @property
    def before(self) -> GPUJobStatus:
        """The current status."""
        return self.state.job.status

    @property
    def queue(self) -> str:
        """The Kueue queue of the job; empty without one."""
        return self.child.queue or self.state.job.labels.get(QUEUE_LABEL, "")


ConditionRule: TypeAlias = Callable[[JobSituation], Iterable[ConditionUpdate]]
"""Returns the conditions of a feature; none if they must not change."""

PlanRule: TypeAlias = Callable[[JobSituation, ReconcilePlan], ReconcilePlan]
"""Adds the writes of a feature to a plan."""


def job_situation(state: GpuJobState, spec: GPUJobSpec, child: ChildJob) -> JobSituation:
    """Return the situation of a job with a child Job."""
    before = state.job.status
    pods = [pod for pod in state.pods if child.uid and pod.job_uid == child.uid]
    counts = count_failures(before, () if recorded_result(before) else pods)
    result = _result(before, spec, child, counts)
    pod = current_pod(pods, finished=result is not None)
    place = job_placement(pod, state.observed, before.placements) if pod else None
    return JobSituation(state, spec, child, pod, place, counts, result)


def recorded_result(status: GPUJobStatus) -> JobResult | None:
    """Return the result in the status of a GPUJob; None if it has none."""
    for condition in status.conditions:
        if condition.type in {COMPLETE, FAILED} and condition.status == "True":
            return JobResult(condition.type == COMPLETE, condition.reason, condition.message)
    return None


def _result(
    before: GPUJobStatus, spec: GPUJobSpec, child: ChildJob, counts: FailureCounts
) -> JobResult | None:
    recorded = recorded_result(before)
    if recorded is not None or (child.result is not None and child.result.succeeded):
        return recorded or child.result
    return exceeded_limit(counts.failures, spec.limits) or child.result
