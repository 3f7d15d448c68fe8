"""Which samples count for a GPUProfile, and which events its changes cause."""

from typing import Any

import pytest

from gputopo.api.profile import (
    CommunicationFact,
    GPUProfileSpec,
    GPUProfileStatus,
    LinkFact,
    Sample,
    WorkloadFacts,
)
from gputopo_kube.document import ObjectKey
from gputopo_operator.decision.profiles import profile_events, profile_update
from gputopo_operator.model.workloads import ProfileEvidence, ProfileState
from support.builders.samples import sample

NOW = "2026-11-22T12:00:00Z"
CREATED = "2026-11-22T10:00:05Z"


def profile(**fields: Any) -> ProfileState:
    """Return a GPUProfile that was created at 10:00:05."""
    values: dict[str, Any] = {
        "key": ObjectKey("default", "bert"),
        "generation": 3,
        "created": CREATED,
        "deleting": False,
        "spec": GPUProfileSpec(),
        "status": GPUProfileStatus(),
    }
    return ProfileState(**values | fields)


def counted(evidence: ProfileEvidence) -> list[Sample]:
    """Return the samples in the status after an update."""
    update = profile_update(profile(), evidence, NOW)
    assert update is not None
    return update.status.samples


def test_new_samples_are_added_once() -> None:
    evidence = ProfileEvidence((sample(5), sample(6)))
    update = profile_update(profile(), evidence, NOW)
    assert update is not None
    assert (update.status.sample_count, update.status.observed_generation) == (2, 3)
    repeated = profile(status=update.status)
    assert profile_update(repeated, evidence, "2026-11-22T13:00:00Z") is None
    assert profile_update(repeated, ProfileEvidence(), NOW) is None


def test_profile_without_samples_shows_the_declared_value() -> None:
    declared = profile(spec=GPUProfileSpec(bandwidth_sensitivity_percent=45))
    update = profile_update(declared, ProfileEvidence(), NOW)
    assert update is not None
    assert update.status.pod_annotation is not None
    assert '"source":"Declared"' in update.status.pod_annotation


def test_sample_that_is_older_than_the_profile_does_not_count() -> None:
    """A user deletes a GPUProfile to forget its samples, which GPUTopologies still list."""
    assert counted(ProfileEvidence((sample(4), sample(5)))) == [sample(5)]


def test_older_sample_of_a_running_pod_counts() -> None:
    """The operator created the GPUProfile because of this pod."""
    evidence = ProfileEvidence((sample(3), sample(4)), frozenset({"u4"}))
    assert counted(evidence) == [sample(4)]


def test_profile_that_is_being_deleted_is_not_changed() -> None:
    evidence = ProfileEvidence((sample(5),))
    assert profile_update(profile(deleting=True), evidence, NOW) is None


def status(**sensitivities: str) -> GPUProfileStatus:
    """Return a status in which jobs with N GPUs have the sensitivity in ``gpusN``."""
    links = [
        LinkFact.model_validate(
            {
                "gpus": int(gpus.removeprefix("gpus")),
                "percent": 45,
                "lowPercent": 40,
                "highPercent": 50,
                "samples": 8,
                "sensitivity": sensitivity,
            }
        )
        for gpus, sensitivity in sensitivities.items()
    ]
    return GPUProfileStatus(facts=WorkloadFacts(gpu_model="V100", links=links))


FIGURES = "45 % (40..50) slower on the worst links, 8 samples"


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (GPUProfileStatus(), GPUProfileStatus(), []),
        (GPUProfileStatus(), status(gpus2="Unknown"), []),
        (status(gpus2="Sensitive"), status(gpus2="Sensitive"), []),
        (
            GPUProfileStatus(),
            status(gpus2="Sensitive"),
            [("SensitivityMeasured", f"2 GPUs: Sensitive (was Unknown): {FIGURES}")],
        ),
        (
            status(gpus2="Insensitive"),
            status(gpus2="Sensitive"),
            [("SensitivityCorrected", f"2 GPUs: Sensitive (was Insensitive): {FIGURES}")],
        ),
        (
            status(gpus2="Sensitive", gpus4="Insensitive"),
            status(gpus2="Unknown"),
            [
                ("SensitivityMeasured", f"2 GPUs: Unknown (was Sensitive): {FIGURES}"),
                ("SensitivityMeasured", "4 GPUs: Unknown (was Insensitive): too few samples"),
            ],
        ),
    ],
    ids=["no facts", "not known yet", "no change", "measured", "corrected", "lost"],
)
def test_event_reports_each_changed_sensitivity_with_its_figures(
    before: GPUProfileStatus, after: GPUProfileStatus, events: list[tuple[str, str]]
) -> None:
    found = list(profile_events(before, after))
    assert [(event.reason, event.note) for event in found] == events
    assert {event.type for event in found} <= {"Normal"}


def with_counters(**fields: Any) -> GPUProfileStatus:
    values = {"gpus": 2, "source": "NVLinkPairs", "samples": 3, "bytesPerStep": 10}
    values |= {"lowBytesPerStep": 9, "highBytesPerStep": 11}
    fact = CommunicationFact.model_validate(values | fields)
    return GPUProfileStatus(facts=WorkloadFacts(gpu_model="V100", communication=[fact]))


STAR = {"pattern": "Star", "confidencePermille": 900, "windows": 30}


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (
            GPUProfileStatus(),
            with_counters(**STAR),
            [("PatternMeasured", "2 GPUs: Star, seen in 90 % of 30 windows (was Unknown)")],
        ),
        (with_counters(**STAR), with_counters(**STAR | {"windows": 40}), []),
        (
            with_counters(**STAR),
            with_counters(),
            [("PatternMeasured", "2 GPUs: Unknown (was Star)")],
        ),
        (
            with_counters(slowdownHighPercent=20),
            with_counters(slowdownHighPercent=4),
            [
                (
                    "SensitivityMeasured",
                    (
                        "2 GPUs: Insensitive (was Unknown): at most 4 % slower on the worst links "
                        "by counters, 3 samples"
                    ),
                )
            ],
        ),
        (
            with_counters(slowdownHighPercent=4),
            status(gpus2="Sensitive"),
            [("SensitivityCorrected", f"2 GPUs: Sensitive (was Insensitive): {FIGURES}")],
        ),
    ],
    ids=["pattern", "same pattern", "no pattern", "few bytes", "corrected"],
)
def test_event_reports_what_counters_have_shown(
    before: GPUProfileStatus, after: GPUProfileStatus, events: list[tuple[str, str]]
) -> None:
    assert [(event.reason, event.note) for event in profile_events(before, after)] == events
