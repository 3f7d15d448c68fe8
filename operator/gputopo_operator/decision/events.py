"""Builds the Kubernetes Events for a change of the status."""

from collections.abc import Iterable, Iterator, Sequence

from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus
from gputopo_kube.podstatus import ContainerStatus
from gputopo_operator.decision.conditions import (
    ACCEPTED,
    COMPLETE,
    FAILED,
    POSTPONED,
    PROFILE_READY,
    find,
    holds,
    truncated,
)
from gputopo_operator.decision.placements import describe, differs
from gputopo_operator.model.jobs import FailedPod, FailureKind, ObjectEvent


def status_events(
    before: GPUJobStatus,
    after: GPUJobStatus,
    failed_pods: Sequence[FailedPod],
    spec: GPUJobSpec | None,
) -> tuple[ObjectEvent, ...]:
    """Return the Kubernetes Events about the change of a status from ``before`` to ``after``."""
    return (
        *_acceptance(before, after),
        *_profile(before, after),
        *_placement(before, after),
        *_postponement(before, after),
        *(_failures(before, failed_pods, spec) if spec else ()),
        *_result(before, after),
    )


def invalid_status(error: str) -> Iterator[ObjectEvent]:
    """Yield the event about an invalid value in a status; none if ``error`` is empty."""
    if error:
        note = f"{error}; the value counts as unknown, and the operator writes the status again"
        yield ObjectEvent("Warning", "StatusInvalid", truncated(note))


def _acceptance(before: GPUJobStatus, after: GPUJobStatus) -> Iterator[ObjectEvent]:
    old, new = find(before.conditions, ACCEPTED), find(after.conditions, ACCEPTED)
    if new is None:
        return
    if new.status == "True":
        if old is None or old.status != "True":
            yield ObjectEvent("Normal", "Accepted", new.message)
    elif old is None or (old.status, old.message) != (new.status, new.message):
        yield ObjectEvent("Warning", "Refused", new.message)


def _profile(before: GPUJobStatus, after: GPUJobStatus) -> Iterator[ObjectEvent]:
    old, new = find(before.conditions, PROFILE_READY), find(after.conditions, PROFILE_READY)
    was_ready = old is None or old.status == "True"
    if new is None or was_ready == (new.status == "True"):
        return
    yield ObjectEvent("Warning" if was_ready else "Normal", new.reason, truncated(new.message))


def _placement(before: GPUJobStatus, after: GPUJobStatus) -> Iterator[ObjectEvent]:
    old = {place.pod_uid: place for place in before.placements}
    for place in after.placements:
        known = old.get(place.pod_uid)
        if known is None:
            yield ObjectEvent("Normal", "Placed", truncated(describe(place)))
        if differs(place) and (known is None or not differs(known)):
            given, chosen = ", ".join(place.observed), ", ".join(place.intended)
            note = (
                f"pod {place.pod}: kubelet gave the pod {given} instead of the chosen {chosen}; "
                f"see the agent of node {place.node}"
            )
            yield ObjectEvent("Warning", "ObservedDiffers", truncated(note))


def _postponement(before: GPUJobStatus, after: GPUJobStatus) -> Iterator[ObjectEvent]:
    """Yield an event when a wait begins, and when a wait has ended with a placement."""
    old, new = find(before.conditions, POSTPONED), find(after.conditions, POSTPONED)
    if new is None:
        return
    waited = old is not None and old.status == "True"
    if new.status == "True" and not waited:
        yield ObjectEvent("Normal", "Postponed", new.message)
    elif new.status == "False" and new.message and (old is None or old.message != new.message):
        yield ObjectEvent("Normal", "PostponementEnded", new.message)


def _failures(
    before: GPUJobStatus, failed_pods: Sequence[FailedPod], spec: GPUJobSpec
) -> Iterator[ObjectEvent]:
    application, admission = before.failures.application, before.failures.admission
    for failed in failed_pods:
        view, status = failed.pod.view, failed.pod.status
        if failed.kind is FailureKind.ADMISSION:
            admission += 1
            retry = _retry(admission, spec.limits.max_admission_retries)
            note = f"kubelet of node {view.node} rejected pod {view.name} ({retry}): "
            note += status.message or ""
            yield ObjectEvent("Warning", "AdmissionFailed", truncated(note))
        else:
            application += 1
            retry = _retry(application, spec.limits.backoff_limit)
            why = _failed_container(status.containers) or status.message or status.reason
            note = f"pod {view.name} failed ({retry}): {why or 'no reason in its status'}; "
            note += f"see `kubectl logs {view.name}`"
            yield ObjectEvent("Warning", "PodFailed", truncated(note))


def _retry(failures: int, limit: int) -> str:
    return f"retrying, {failures} of {limit}" if failures <= limit else f"limit {limit} exceeded"


def _failed_container(containers: Iterable[ContainerStatus]) -> str:
    """Describe the exit of the first failed container; return an empty text if none failed."""
    for container in containers:
        if container.has_failed and (ended := container.terminated) is not None:
            code, reason = ended.get("exitCode"), ended.get("reason", "Error")
            return f"container {container.name} ended with exit code {code} ({reason})"
    return ""


def _result(before: GPUJobStatus, after: GPUJobStatus) -> Iterator[ObjectEvent]:
    for type_, event_type, reason in (
        (COMPLETE, "Normal", "Completed"),
        (FAILED, "Warning", "Failed"),
    ):
        new = find(after.conditions, type_)
        if new is not None and new.status == "True" and not holds(before.conditions, type_):
            yield ObjectEvent(event_type, reason, truncated(f"{new.reason}: {new.message}"))
