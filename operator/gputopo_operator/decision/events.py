"""The events that a change of status is worth: what happened, and what to do about it."""

from collections.abc import Iterator, Sequence

from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus
from gputopo_operator.decision.conditions import (
    ACCEPTED,
    COMPLETE,
    FAILED,
    PROFILE_READY,
    find,
    holds,
    truncated,
)
from gputopo_operator.decision.placements import differs, in_words
from gputopo_operator.model import Event, FailedPod, FailureKind


def news(
    before: GPUJobStatus,
    after: GPUJobStatus,
    failed_pods: Sequence[FailedPod],
    spec: GPUJobSpec | None,
) -> tuple[Event, ...]:
    """Return what is new between two statuses; nothing where they are equal."""
    return (
        *_acceptance(before, after),
        *_profile(before, after),
        *_placement(before, after),
        *(_failures(before, failed_pods, spec) if spec else ()),
        *_ending(before, after),
    )


def _acceptance(before: GPUJobStatus, after: GPUJobStatus) -> Iterator[Event]:
    old, new = find(before.conditions, ACCEPTED), find(after.conditions, ACCEPTED)
    if new is None:
        return
    if new.status == "True":
        if old is None or old.status != "True":
            yield Event("Normal", "Accepted", new.message)
    elif old is None or (old.status, old.message) != (new.status, new.message):
        yield Event("Warning", "Refused", new.message)


def _profile(before: GPUJobStatus, after: GPUJobStatus) -> Iterator[Event]:
    old, new = find(before.conditions, PROFILE_READY), find(after.conditions, PROFILE_READY)
    was_ready = old is None or old.status == "True"
    if new is None or was_ready == (new.status == "True"):
        return
    yield Event("Warning" if was_ready else "Normal", new.reason, truncated(new.message))


def _placement(before: GPUJobStatus, after: GPUJobStatus) -> Iterator[Event]:
    old = {place.pod_uid: place for place in before.placements}
    for place in after.placements:
        known = old.get(place.pod_uid)
        if known is None:
            yield Event("Normal", "Placed", truncated(in_words(place)))
        if differs(place) and (known is None or not differs(known)):
            note = f"pod {place.pod}: kubelet gave {', '.join(place.observed)} instead of the "
            note += f"chosen {', '.join(place.intended)}; look at the agent of node {place.node}"
            yield Event("Warning", "ObservedDiffers", truncated(note))


def _failures(
    before: GPUJobStatus, failed_pods: Sequence[FailedPod], spec: GPUJobSpec
) -> Iterator[Event]:
    application, admission = before.failures.application, before.failures.admission
    for failed in failed_pods:
        pod = failed.pod
        if failed.kind is FailureKind.ADMISSION:
            admission += 1
            outcome = _outcome(admission, spec.limits.max_admission_retries)
            note = f"node {pod.node} refused pod {pod.name} ({outcome}): {pod.message}"
            yield Event("Warning", "AdmissionFailed", truncated(note))
        else:
            application += 1
            outcome = _outcome(application, spec.limits.backoff_limit)
            why = pod.ended or pod.message or pod.reason or "the pod failed"
            note = f"pod {pod.name} failed ({outcome}): {why}; see kubectl logs {pod.name}"
            yield Event("Warning", "PodFailed", truncated(note))


def _outcome(failures: int, limit: int) -> str:
    return f"retrying, {failures} of {limit}" if failures <= limit else f"limit {limit} exceeded"


def _ending(before: GPUJobStatus, after: GPUJobStatus) -> Iterator[Event]:
    for type_, event_type, reason in (
        (COMPLETE, "Normal", "Completed"),
        (FAILED, "Warning", "Failed"),
    ):
        new = find(after.conditions, type_)
        if new is not None and new.status == "True" and not holds(before.conditions, type_):
            yield Event(event_type, reason, truncated(f"{new.reason}: {new.message}"))
