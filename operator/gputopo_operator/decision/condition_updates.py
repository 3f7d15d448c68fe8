"""What each condition of a GPUJob says, and why."""

from collections.abc import Sequence

from gputopo.api.v1alpha1 import Condition, GPUJobSpec, JobFailures, JobPlacement
from gputopo.sensitivity.resolve import Sensitivity
from gputopo_operator.decision.conditions import (
    ACCEPTED,
    COMPLETE,
    FAILED,
    PLACED,
    PROFILE_READY,
    RUNNING,
    SUSPENDED,
    Claim,
    find,
)
from gputopo_operator.decision.placements import differs, in_words
from gputopo_operator.model import Child, Ending, Pod, Snapshot

TYPES = (ACCEPTED, PLACED, RUNNING, COMPLETE, FAILED, SUSPENDED)


def refused(reason: str, message: str) -> list[Claim]:
    """Return what is said of a GPUJob that has no child Job, nor will have one as it is."""
    rest = [Claim(type_, False, "NotAccepted", "") for type_ in TYPES if type_ != ACCEPTED]
    return [Claim(ACCEPTED, False, reason, message), *rest]


def repeated(previous: Sequence[Condition]) -> list[Claim]:
    """Return what was said before."""
    types = (*TYPES, PROFILE_READY)
    return [_again(condition) for condition in previous if condition.type in types]


def accepted(spec: GPUJobSpec, child: Child) -> Claim:
    """Return the claim that the job is understood, with how its sensitivity was found."""
    declared = spec.communication.bandwidth_sensitivity
    if declared is not Sensitivity.AUTO:
        words = f"{declared} (Declared)"
    elif child.sensitivity != Sensitivity.AUTO:
        words = f"{child.sensitivity} (Profile {spec.workload.profile})"
    elif spec.gpus_per_replica == 1:
        words = "Insensitive (SingleGpu)"
    else:
        words = "Sensitive (SensitivityUnknown: no GPUProfile tells)"
    return Claim(ACCEPTED, True, "JobCreated", f"bandwidth sensitivity: {words}")


def profile(seen: Snapshot, name: str | None) -> list[Claim]:
    """Return the condition on the GPUProfile that the job names; empty where it names none."""
    before = find(seen.job.status.conditions, PROFILE_READY)
    if name is None:
        return []
    if seen.profile_error:
        # What to do comes first: a long answer of the API server is cut at its end.
        message = (
            f"GPUProfile {name} was not created, the job runs without it; allow the creation or "
            f"create the GPUProfile yourself, gputopo tries again: {seen.profile_error}"
        )
        return [Claim(PROFILE_READY, False, "ProfileNotCreated", message)]
    if before is not None and before.status == "True":
        return [_again(before)]
    reason = "ProfileFound" if seen.profile else "ProfileCreated"
    return [Claim(PROFILE_READY, True, reason, f"GPUProfile {name}")]


def suspended(spec: GPUJobSpec, child: Child, queue: str, ending: Ending | None) -> Claim:
    """Return the claim that the job is kept from running."""
    if ending is not None:
        return Claim(SUSPENDED, False, "Finished", "")
    if not queue:
        reason = "SuspendedByUser" if spec.suspend else "NotSuspended"
        return Claim(SUSPENDED, spec.suspend, reason, "")
    aside = "; spec.suspend has no effect, the queue decides" if spec.suspend else ""
    if child.suspended:
        message = f"queue {queue} has not admitted the job{aside}"
        return Claim(SUSPENDED, True, "SuspendedByQueue", message)
    return Claim(SUSPENDED, False, "AdmittedByQueue", f"queue {queue} admitted the job{aside}")


def placed(
    job: str,
    pod: Pod | None,
    place: JobPlacement | None,
    previous: Sequence[Condition],
    ending: Ending | None,
) -> Claim:
    """Return the claim that the pod has its node and its GPUs."""
    if pod is None:
        before = find(previous, PLACED)
        if ending is not None and before is not None:
            return _again(before)
        # Why the Job controller makes none (quota, admission, no such class) its Job's events tell.
        message = f"there is no pod yet; kubectl describe job {job} tells why none is made"
        return Claim(PLACED, False, "NoPod", message)
    if not pod.node:
        reason, message = pod.unscheduled
        waits = f"pod {pod.name} waits for the scheduler"
        return Claim(PLACED, False, reason or "NotYetScheduled", message or waits)
    if place is None:
        message = f"pod {pod.name} is on node {pod.node}, but gputopo chose no GPUs for it"
        return Claim(PLACED, False, "NoGpusChosen", message)
    if differs(place):
        message = f"{in_words(place)}; kubelet gave {', '.join(place.observed)}"
        return Claim(PLACED, True, "ObservedDiffers", message)
    reason = "Observed" if set(place.observed) == set(place.intended) else "Bound"
    return Claim(PLACED, True, reason, in_words(place))


def running(pod: Pod | None, ending: Ending | None) -> Claim:
    """Return the claim that the containers run."""
    if ending is not None:
        return Claim(RUNNING, False, "Finished", "")
    if pod is None or not pod.node:
        return Claim(RUNNING, False, "NotPlaced", "")
    if pod.phase == "Running":
        return Claim(RUNNING, True, "PodRunning", f"pod {pod.name} on node {pod.node}")
    if pod.over:
        return Claim(RUNNING, False, "PodEnded", f"pod {pod.name}")
    return Claim(RUNNING, False, "Starting", pod.waiting or f"pod {pod.name} starts")


def ended(ending: Ending | None, failures: JobFailures, spec: GPUJobSpec) -> list[Claim]:
    """Return the claims that the job is complete or has failed."""
    if ending is None:
        limits = spec.limits
        message = (
            f"failures: {failures.application} of {limits.backoff_limit} of the application, "
            f"{failures.admission} of {limits.max_admission_retries} of admission"
        )
        return [
            Claim(COMPLETE, False, "NotFinished", ""),
            Claim(FAILED, False, "WithinLimits", message),
        ]
    true_reason = ending.reason or "Finished"
    if ending.succeeded:
        return [
            Claim(COMPLETE, True, true_reason, ending.message),
            Claim(FAILED, False, "Succeeded", ""),
        ]
    return [
        Claim(COMPLETE, False, "Failed", ""),
        Claim(FAILED, True, true_reason, ending.message),
    ]


def _again(condition: Condition) -> Claim:
    return Claim(condition.type, condition.status == "True", condition.reason, condition.message)
