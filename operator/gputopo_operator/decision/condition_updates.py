"""Decides the value, reason and message of each condition of a GPUJob."""

from collections.abc import Iterable, Sequence

from gputopo.api.model import Condition
from gputopo.api.v1alpha1 import GPUJobSpec, JobPlacement, QueueStatus
from gputopo.patterns.declared import DeclaredPattern
from gputopo.sensitivity.resolve import Sensitivity
from gputopo_kube.podstatus import ContainerStatus, PodCondition
from gputopo_operator.decision.conditions import (
    ACCEPTED,
    COMPLETE,
    FAILED,
    PLACED,
    POD_NOT_CREATED,
    POSTPONED,
    PROFILE_READY,
    PROFILED,
    QUEUED,
    RUNNING,
    SIZED,
    SUSPENDED,
    ConditionUpdate,
    find,
    repeated,
)
from gputopo_operator.decision.placements import describe, differs
from gputopo_operator.decision.situation import JobSituation
from gputopo_operator.model.jobs import ChildJob, GpuJobState, JobPod, JobResult

TYPES = (ACCEPTED, PLACED, RUNNING, COMPLETE, FAILED, SUSPENDED)


def rejected(reason: str, message: str) -> list[ConditionUpdate]:
    """Return the conditions of a GPUJob that is not accepted and gets no child Job."""
    others = [
        ConditionUpdate(type_, False, "NotAccepted", "") for type_ in TYPES if type_ != ACCEPTED
    ]
    return [ConditionUpdate(ACCEPTED, False, reason, message), *others]


def measuring_links(spec: GPUJobSpec, waiting: str) -> list[ConditionUpdate]:
    """Return the conditions of a job whose links are measured before it starts."""
    reason = "MeasuringLinks"
    message = "two short runs measure the links, then the job starts; see condition Profiled"
    suspended = "SuspendedByUser" if spec.suspend else "NotSuspended"
    waiting = waiting or "a short run starts or ends"
    return [
        ConditionUpdate(ACCEPTED, True, reason, message),
        ConditionUpdate(PLACED, False, reason, ""),
        ConditionUpdate(RUNNING, False, "NotPlaced", ""),
        ConditionUpdate(COMPLETE, False, "NotFinished", ""),
        ConditionUpdate(FAILED, False, "WithinLimits", ""),
        ConditionUpdate(SUSPENDED, spec.suspend, suspended, ""),
        ConditionUpdate(PROFILED, False, reason, f"Links: {waiting}"),
    ]


def unchanged(previous: Sequence[Condition]) -> list[ConditionUpdate]:
    """Return condition updates that repeat the current conditions of a GPUJob."""
    types = (*TYPES, PROFILE_READY, PROFILED, SIZED, POSTPONED)
    return [repeated(condition) for condition in previous if condition.type in types]


def accepted(found: JobSituation) -> list[ConditionUpdate]:
    """Return the condition Accepted; its message states the sensitivity and a learnt pattern."""
    spec, child = found.spec, found.child
    declared = spec.communication.bandwidth_sensitivity
    fact = None
    if child.facts is not None:
        resolved, fact = child.facts.resolve(declared, spec.gpus_per_replica)
        known = Sensitivity.SENSITIVE if resolved.sensitive else Sensitivity.INSENSITIVE
    if declared is not Sensitivity.AUTO:
        sensitivity = f"{declared} (Declared)"
    elif fact is not None:
        sensitivity = f"{known} ({fact})"
    elif child.sensitivity != Sensitivity.AUTO:
        sensitivity = f"{child.sensitivity} (Profile {spec.workload.profile})"
    elif spec.gpus_per_replica == 1:
        sensitivity = "Insensitive (SingleGpu)"
    else:
        sensitivity = "Sensitive (SensitivityUnknown: no GPUProfile has a value)"
    message = f"bandwidth sensitivity: {sensitivity}{_learnt_pattern(spec, child)}"
    return [ConditionUpdate(ACCEPTED, True, "JobCreated", message)]


def _learnt_pattern(spec: GPUJobSpec, child: ChildJob) -> str:
    """Return the pattern that the facts about the workload give the job; empty if they do not."""
    if child.facts is None:
        return ""
    declared = spec.communication.pattern or DeclaredPattern.AUTO
    resolved, fact = child.facts.resolve_pattern(declared, spec.gpus_per_replica)
    return "" if fact is None else f"; communication pattern: {resolved.kind} ({fact})"


def suspended(found: JobSituation) -> list[ConditionUpdate]:
    """Return the condition Suspended: whether the user or a queue suspends the job."""
    return [_suspended(found)]


def _suspended(found: JobSituation) -> ConditionUpdate:
    spec, child, queue = found.spec, found.child, found.queue
    if found.result is not None:
        return ConditionUpdate(SUSPENDED, False, "Finished", "")
    if found.state.queued and not queue and not spec.suspend:
        return _queued(child, found.before.queue)
    if not queue:
        reason = "SuspendedByUser" if spec.suspend else "NotSuspended"
        return ConditionUpdate(SUSPENDED, spec.suspend, reason, "")
    aside = "; spec.suspend has no effect, because the queue decides" if spec.suspend else ""
    if child.suspended:
        message = f"queue {queue} has not admitted the job{aside}"
        return ConditionUpdate(SUSPENDED, True, "SuspendedByQueue", message)
    message = f"queue {queue} has admitted the job{aside}"
    return ConditionUpdate(SUSPENDED, False, "AdmittedByQueue", message)


def _queued(child: ChildJob, waits: QueueStatus | None) -> ConditionUpdate:
    if not child.suspended:
        return ConditionUpdate(SUSPENDED, False, "Admitted", "")
    if waits is not None and waits.pod_error:
        message = (
            f"waiting in gputopo's queue again, not before {waits.not_before}: the pod could not "
            f"be created: {waits.pod_error}"
        )
        return ConditionUpdate(SUSPENDED, True, POD_NOT_CREATED, message)
    message = "waiting in gputopo's queue; see status.queue for position and reason"
    return ConditionUpdate(SUSPENDED, True, QUEUED, message)


def placed(found: JobSituation) -> list[ConditionUpdate]:
    """Return the condition Placed: whether the pod has a node and GPUs."""
    return [_placed(found, found.pod, found.place)]


def _placed(found: JobSituation, pod: JobPod | None, place: JobPlacement | None) -> ConditionUpdate:
    if pod is None:
        before = find(found.before.conditions, PLACED) if found.result is not None else None
        return repeated(before) if before is not None else _no_pod(found.state, found.child)
    name, node = pod.view.name, pod.view.node
    if node is None:
        return _unscheduled(pod)
    if place is None:
        message = f"pod {name} is bound to node {node}, but gputopo has chosen no GPUs for this pod"
        return ConditionUpdate(PLACED, False, "NoGpusChosen", message)
    if differs(place):
        message = f"{describe(place)}; but kubelet gave the pod {', '.join(place.observed)}"
        return ConditionUpdate(PLACED, True, "ObservedDiffers", message)
    reason = "Observed" if set(place.observed) == set(place.intended) else "Bound"
    return ConditionUpdate(PLACED, True, reason, describe(place))


def running(found: JobSituation) -> list[ConditionUpdate]:
    """Return the condition Running: whether the containers of the pod run."""
    return [_running(found.pod, found.result)]


def _running(pod: JobPod | None, result: JobResult | None) -> ConditionUpdate:
    if result is not None:
        return ConditionUpdate(RUNNING, False, "Finished", "")
    if pod is None or pod.view.node is None:
        return ConditionUpdate(RUNNING, False, "NotPlaced", "")
    name = pod.view.name
    if pod.view.running:
        return ConditionUpdate(RUNNING, True, "PodRunning", f"pod {name} on node {pod.view.node}")
    if not pod.view.live:
        return ConditionUpdate(RUNNING, False, "PodEnded", f"pod {name}")
    message = _waiting(pod.status.containers) or f"pod {name} is starting"
    return ConditionUpdate(RUNNING, False, "Starting", message)


def finished(found: JobSituation) -> list[ConditionUpdate]:
    """Return the conditions Complete and Failed."""
    result, failures, limits = found.result, found.counts.failures, found.spec.limits
    if result is None:
        message = (
            f"application failures: {failures.application}, limit {limits.backoff_limit}; "
            f"admission failures: {failures.admission}, limit {limits.max_admission_retries}"
        )
        return [
            ConditionUpdate(COMPLETE, False, "NotFinished", ""),
            ConditionUpdate(FAILED, False, "WithinLimits", message),
        ]
    reason = result.reason or "Finished"
    if result.succeeded:
        return [
            ConditionUpdate(COMPLETE, True, reason, result.message),
            ConditionUpdate(FAILED, False, "Succeeded", ""),
        ]
    return [
        ConditionUpdate(COMPLETE, False, "Failed", ""),
        ConditionUpdate(FAILED, True, reason, result.message),
    ]


def _no_pod(state: GpuJobState, child: ChildJob) -> ConditionUpdate:
    if child.suspended:
        message = "the job is suspended, so it has no pod; see condition Suspended"
        return ConditionUpdate(PLACED, False, "Suspended", message)
    if state.pod_error:
        message = f"the pod could not be created: {state.pod_error}"
        return ConditionUpdate(PLACED, False, POD_NOT_CREATED, message)
    # The Job's events give the reason: a quota, an admission webhook, an unknown class.
    name = state.job.key.name
    message = f"the Job has no pod yet; see the events of `kubectl describe job {name}`"
    return ConditionUpdate(PLACED, False, "NoPod", message)


def _unscheduled(pod: JobPod) -> ConditionUpdate:
    """Return the condition Placed of a pod without a node, with the scheduler's reason if any."""
    found = pod.status.unschedulable or PodCondition()
    waiting = f"pod {pod.view.name} is waiting for the scheduler"
    return ConditionUpdate(
        PLACED, False, found.reason or "NotYetScheduled", found.message or waiting
    )


def _waiting(containers: Iterable[ContainerStatus]) -> str:
    """Return the reason of the first waiting container, or an empty text if none waits."""
    for container in containers:
        if (waiting := container.waiting) is not None:
            texts = (waiting.get("reason"), waiting.get("message"))
            return f"container {container.name}: " + ": ".join(text for text in texts if text)
    return ""
