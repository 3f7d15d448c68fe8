"""Decides the status of a GPUProfile and the events on it, from what the nodes report."""

from collections.abc import Iterator

from gputopo.api.profile import GPUProfileStatus, Sample, WorkloadFacts
from gputopo.profiles.known import is_insensitive, known_patterns, known_slowdowns
from gputopo.profiles.update import updated_status
from gputopo_operator.decision.conditions import truncated
from gputopo_operator.model.jobs import ObjectEvent
from gputopo_operator.model.workloads import ProfileEvidence, ProfileState, ProfileUpdate

_DECIDED = {"Sensitive", "Insensitive"}
_UNKNOWN = "Unknown"


def profile_update(
    profile: ProfileState, evidence: ProfileEvidence, now: str
) -> ProfileUpdate | None:
    """Return the writes that a GPUProfile needs, or None if its status is up to date.

    Samples that the status already has change nothing, so a repeated call needs no writes.
    """
    if profile.deleting:
        return None
    after = updated_status(
        profile.status,
        profile.spec,
        _counted(profile, evidence),
        name=profile.key.name,
        generation=profile.generation,
        now=now,
    )
    if after == profile.status:
        return None
    return ProfileUpdate(after, tuple(profile_events(profile.status, after)))


def profile_events(before: GPUProfileStatus, after: GPUProfileStatus) -> Iterator[ObjectEvent]:
    """Yield an event for each number of GPUs whose sensitivity or pattern has changed."""
    yield from _sensitivity_events(before.facts, after.facts)
    yield from _pattern_events(before.facts, after.facts)


def _sensitivity_events(
    before: WorkloadFacts | None, after: WorkloadFacts | None
) -> Iterator[ObjectEvent]:
    old, new = _sensitivities(before), _sensitivities(after)
    known = known_slowdowns(after)
    for gpus in sorted(old | new):
        was, now = old.get(gpus, _UNKNOWN), new.get(gpus, _UNKNOWN)
        if was == now:
            continue
        figures = known.get(gpus, "too few samples")
        corrected = {was, now} == _DECIDED
        reason = "SensitivityCorrected" if corrected else "SensitivityMeasured"
        note = f"{gpus} GPUs: {now} (was {was}): {figures}"
        yield ObjectEvent("Normal", reason, truncated(note))


def _pattern_events(
    before: WorkloadFacts | None, after: WorkloadFacts | None
) -> Iterator[ObjectEvent]:
    old, new = known_patterns(before), known_patterns(after)
    for gpus in sorted(old | new):
        was, fact = old.get(gpus), new.get(gpus)
        kind_before, kind = (each.kind if each else _UNKNOWN for each in (was, fact))
        if kind_before != kind:
            note = f"{gpus} GPUs: {fact or kind} (was {kind_before})"
            yield ObjectEvent("Normal", "PatternMeasured", truncated(note))


def _counted(profile: ProfileState, evidence: ProfileEvidence) -> list[Sample]:
    """Return the reported samples that count for this GPUProfile.

    A user can delete a GPUProfile to forget its samples, but the GPUTopologies still list them. So
    a sample that is older than the GPUProfile does not count. The exception is a sample of a pod
    that still runs: the operator creates the GPUProfile only after the start of such a pod.
    """
    return [
        sample
        for sample in evidence.samples
        if sample.time >= profile.created or sample.pod_uid in evidence.running
    ]


def _sensitivities(facts: WorkloadFacts | None) -> dict[int, str]:
    if facts is None:
        return {}
    limited = {fact.gpus: "Insensitive" for fact in facts.communication if is_insensitive(fact)}
    return limited | {fact.gpus: fact.sensitivity for fact in facts.links}
