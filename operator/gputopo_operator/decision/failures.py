"""Counts the failed pods of a job, by the cause of the failure.

The Job controller counts every failed pod. But a pod that kubelet did not admit is not a failure
of the user's program. Many pods can fail this way at once, because a node that restarts rejects
every GPU pod that is bound to it. So admission failures have a separate limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gputopo.api.v1alpha1 import GPUJobStatus, JobFailures, Limits
from gputopo_kube.podstatus import ADMISSION_ERROR
from gputopo_operator.model.jobs import FailedPod, FailureKind, JobPod, JobResult


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """The failures of a job so far.

    Attributes:
        counted: UIDs of the counted pods that still exist. The UIDs of deleted pods are not
            needed, because a UID is never used again.
        new: the pods that were not counted before.
    """

    failures: JobFailures
    counted: tuple[str, ...]
    new: tuple[FailedPod, ...]


def count_failures(status: GPUJobStatus, pods: Sequence[JobPod]) -> FailureCounts:
    """Add the failed pods of ``pods`` to the counts in the status."""
    known = set(status.failed_pod_uids)
    new = tuple(
        FailedPod(pod, kind)
        for pod in pods
        if pod.view.uid not in known and (kind := failure_kind(pod)) is not None
    )
    kinds = [failed.kind for failed in new]
    existing = {pod.view.uid for pod in pods}
    kept = tuple(uid for uid in status.failed_pod_uids if uid in existing)
    return FailureCounts(
        failures=JobFailures(
            application=status.failures.application + kinds.count(FailureKind.APPLICATION),
            admission=status.failures.admission + kinds.count(FailureKind.ADMISSION),
        ),
        counted=kept + tuple(failed.pod.view.uid for failed in new),
        new=new,
    )


def failure_kind(pod: JobPod) -> FailureKind | None:
    """Return the cause of a failed pod, or None if the pod does not count as failed.

    A pod that was deleted (by a user, or because its Job was suspended), preempted or evicted does
    not count as failed. A pod that kubelet did not admit has a reason in its status, and none of
    its containers has started.
    """
    disruption = pod.status.condition("DisruptionTarget")
    disrupted = disruption is not None and disruption.status == "True"
    if pod.view.phase != "Failed" or pod.view.deleting or disrupted:
        return None
    reason = pod.status.reason or ""
    rejected = reason == ADMISSION_ERROR or reason.startswith("OutOf")
    if rejected or (reason and not pod.view.started):
        return FailureKind.ADMISSION
    return FailureKind.APPLICATION


def exceeded_limit(failures: JobFailures, limits: Limits) -> JobResult | None:
    """Return the result of a failed job if the failures exceed a limit, otherwise None."""
    if failures.application > limits.backoff_limit:
        message = (
            f"{failures.application} pods failed, but spec.limits.backoffLimit is "
            f"{limits.backoff_limit}; see the logs of the pods"
        )
        return JobResult(False, "BackoffLimitExceeded", message)
    if failures.admission > limits.max_admission_retries:
        message = (
            f"kubelet rejected {failures.admission} pods, but spec.limits.maxAdmissionRetries is "
            f"{limits.max_admission_retries}; see the status of the pods and the GPUs of the nodes"
        )
        return JobResult(False, "AdmissionRetriesExceeded", message)
    return None
