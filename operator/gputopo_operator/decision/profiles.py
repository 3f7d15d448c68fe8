"""Decides the status of a GPUProfile and the events on it, from what the nodes report."""

from collections.abc import Iterator

from gputopo.api.known_facts import KnownSlowdown
from gputopo.api.profile import GPUProfileStatus, LinkFact, Sample
from gputopo.profiles.update import updated_status
from gputopo_operator.decision.conditions import truncated
from gputopo_operator.model import ObjectEvent
from gputopo_operator.workloads import ProfileEvidence, ProfileState, ProfileUpdate

_DECIDED = {"Sensitive", "Insensitive"}


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
    """Yield an event for each number of GPUs whose sensitivity has changed."""
    old, new = _links(before), _links(after)
    for gpus in sorted(old | new):
        was, fact = _sensitivity(old.get(gpus)), new.get(gpus)
        now = _sensitivity(fact)
        if was == now:
            continue
        figures = "too few samples" if fact is None else str(KnownSlowdown.measured(fact))
        corrected = {was, now} == _DECIDED
        reason = "SensitivityCorrected" if corrected else "SensitivityMeasured"
        note = f"{gpus} GPUs: {now} (was {was}): {figures}"
        yield ObjectEvent("Normal", reason, truncated(note))


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


def _links(status: GPUProfileStatus) -> dict[int, LinkFact]:
    return {fact.gpus: fact for fact in status.facts.links} if status.facts else {}


def _sensitivity(fact: LinkFact | None) -> str:
    return "Unknown" if fact is None else fact.sensitivity
