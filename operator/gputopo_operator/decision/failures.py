"""Failed pods: whose failure each is, and how many there were.

The Job controller only knows *failed*. A pod that kubelet refused is not the fault of the
user's program, and such refusals come in bursts (a node that restarts refuses every GPU pod
bound to it), so they have a limit of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gputopo.api.v1alpha1 import GPUJobStatus, JobFailures, Limits
from gputopo_operator.model import Ending, FailedPod, FailureKind, Pod


@dataclass(frozen=True, slots=True)
class Tally:
    """All failures so far.

    Attributes:
        counted: UIDs of the counted pods that still exist. A UID never comes back, so
            those of pods that are gone need not be remembered.
        new: what was not counted before.
    """

    failures: JobFailures
    counted: tuple[str, ...]
    new: tuple[FailedPod, ...]


def tally(status: GPUJobStatus, pods: Sequence[Pod]) -> Tally:
    """Return the failures of the status and those that ``pods`` add to it."""
    known = set(status.failed_pod_uids)
    new = tuple(
        FailedPod(pod, kind)
        for pod in pods
        if pod.uid not in known and (kind := failure_kind(pod)) is not None
    )
    kinds = [failed.kind for failed in new]
    existing = {pod.uid for pod in pods}
    kept = tuple(uid for uid in status.failed_pod_uids if uid in existing)
    return Tally(
        failures=JobFailures(
            application=status.failures.application + kinds.count(FailureKind.APPLICATION),
            admission=status.failures.admission + kinds.count(FailureKind.ADMISSION),
        ),
        counted=kept + tuple(failed.pod.uid for failed in new),
        new=new,
    )


def failure_kind(pod: Pod) -> FailureKind | None:
    """Return whose failure a pod is, None where it is nobody's.

    A pod that was deleted (by a suspension, by a person) or that the cluster took away did
    not fail. kubelet gives a pod that it does not admit a reason and starts nothing of it.
    """
    if pod.phase != "Failed" or pod.deleting or pod.disrupted:
        return None
    refused = pod.reason == "UnexpectedAdmissionError" or pod.reason.startswith("OutOf")
    if refused or (pod.reason and not pod.started):
        return FailureKind.ADMISSION
    return FailureKind.APPLICATION


def exceeded(failures: JobFailures, limits: Limits) -> Ending | None:
    """Return the end of a job that has exceeded a limit, None where it has not."""
    if failures.application > limits.backoff_limit:
        message = (
            f"{failures.application} pods failed, spec.limits.backoffLimit is "
            f"{limits.backoff_limit}; look at their logs"
        )
        return Ending(False, "BackoffLimitExceeded", message)
    if failures.admission > limits.max_admission_retries:
        message = (
            f"kubelet refused {failures.admission} pods, spec.limits.maxAdmissionRetries is "
            f"{limits.max_admission_retries}; look at their status and at the GPUs of the nodes"
        )
        return Ending(False, "AdmissionRetriesExceeded", message)
    return None
