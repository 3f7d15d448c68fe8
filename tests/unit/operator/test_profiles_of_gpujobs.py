"""A GPUJob gets a GPUProfile, and reports the source of its sensitivity."""

from typing import Any

import pytest

from gputopo.api.known_facts import FactsAnnotation, KnownPattern
from gputopo.api.names import SENSITIVITY_ANNOTATION
from gputopo.api.profile import GPUProfile, GPUProfileSpec, GPUProfileStatus
from gputopo_operator.decision.job_profile import profile_to_read
from gputopo_operator.model.jobs import ReconcilePlan, WriteErrors
from support.operator.cluster_states import Situation
from support.operator.gpujob_states import started


def test_missing_profile_is_created_with_the_job_only() -> None:
    case = Situation(workload={"profile": "resnet50"})
    assert case.plan().create_profile == "resnet50"
    case.reconcile()
    case.profile = None
    assert case.plan().create_profile is None


def _without_its_profile() -> Situation:
    situation = Situation(workload={"profile": "resnet50"})
    situation.errors = WriteErrors(profile="403: exceeded quota: none")
    return situation


def test_job_without_its_profile_runs_and_reports_the_error() -> None:
    case = _without_its_profile()
    plan = case.reconcile()
    assert case.child is not None
    assert case.condition("Accepted") == ("True", "JobCreated")
    assert case.condition("ProfileReady") == ("False", "ProfileNotCreated")
    [condition] = [each for each in case.status.conditions if each.type == "ProfileReady"]
    assert condition.message == (
        "GPUProfile resnet50 was not created, so the job runs without it; create it yourself, "
        "or fix the error (gputopo tries again once a minute): 403: exceeded quota: none"
    )
    assert [event.reason for event in plan.events] == [
        "JobCreated",
        "Accepted",
        "ProfileNotCreated",
    ]
    assert plan.recheck_after_seconds == 60.0


@pytest.mark.parametrize("by_hand", [False, True])
def test_rejected_profile_is_created_again_later(*, by_hand: bool) -> None:
    case = _without_its_profile()
    case.reconcile()
    case.errors = WriteErrors()
    case.profile = GPUProfile() if by_hand else None
    assert case.plan().create_profile == (None if by_hand else "resnet50")
    plan = case.reconcile()
    reason = "ProfileFound" if by_hand else "ProfileCreated"
    assert case.condition("ProfileReady") == ("True", reason)
    assert [event.reason for event in plan.events] == [reason]
    assert plan.recheck_after_seconds is None


def test_finished_job_gets_no_profile() -> None:
    case = _without_its_profile()
    case.reconcile()
    case.errors = WriteErrors()
    case.job_ended("Complete", "CompletionsReached")
    assert case.plan().create_profile is None
    case.reconcile()
    assert case.plan() == ReconcilePlan()
    assert case.condition("ProfileReady") == ("False", "ProfileNotCreated")


def test_profile_is_read_for_a_new_job_and_until_it_is_ready() -> None:
    case = _without_its_profile()
    assert profile_to_read(case.state().job, None) == "resnet50"
    case.reconcile()
    job = case.state().job
    assert profile_to_read(job, case.child) == "resnet50"
    case.errors = WriteErrors()
    case.reconcile()
    assert profile_to_read(case.state().job, case.child) is None
    assert profile_to_read(case.state().job, None) == "resnet50", "the Job is created again"
    case.job_ended("Complete", "CompletionsReached").reconcile()
    assert profile_to_read(case.state().job, None) is None
    assert profile_to_read(Situation(gpusPerReplica=99).state().job, None) is None


@pytest.mark.parametrize(
    ("spec", "sensitivity"),
    [
        ({"communication": {"bandwidthSensitivity": "Sensitive"}}, "Sensitive (Declared)"),
        ({"gpusPerReplica": 1}, "Insensitive (SingleGpu)"),
        ({}, "Sensitive (SensitivityUnknown: no GPUProfile has a value)"),
    ],
)
def test_accepted_job_reports_the_source_of_its_sensitivity(
    spec: dict[str, Any], sensitivity: str
) -> None:
    accepted = started(**spec).status.conditions[0]
    assert accepted.message == f"bandwidth sensitivity: {sensitivity}"


def test_profile_of_the_job_is_the_source_of_its_sensitivity() -> None:
    case = Situation(workload={"profile": "bert"})
    case.profile = GPUProfile(spec=GPUProfileSpec(bandwidth_sensitivity_percent=2))
    case.reconcile()
    message = case.status.conditions[0].message
    assert message == (
        "bandwidth sensitivity: Insensitive "
        "(GPUProfile bert: 2 % slower on the worst links, declared)"
    )


@pytest.mark.parametrize(
    ("communication", "pattern"),
    [
        ({}, "; communication pattern: Star (GPUProfile bert: Star, seen in 90 % of 30 windows)"),
        ({"pattern": "Ring"}, ""),
    ],
)
def test_accepted_job_reports_a_learnt_pattern(communication: dict[str, str], pattern: str) -> None:
    learnt = {2: KnownPattern(kind="Star", confidence=900, windows=30)}
    known = FactsAnnotation(profile="bert", source="Measured", patterns=learnt).dump()
    case = Situation(gpusPerReplica=2, workload={"profile": "bert"}, communication=communication)
    case.profile = GPUProfile(status=GPUProfileStatus(pod_annotation=known))
    case.reconcile()
    assert case.status.conditions[0].message == (
        f"bandwidth sensitivity: Sensitive (SensitivityUnknown: no GPUProfile has a value){pattern}"
    )


def test_job_of_an_older_operator_shows_the_sensitivity_of_its_annotation() -> None:
    case = Situation(workload={"profile": "bert"})
    case.reconcile()
    assert case.child is not None
    annotations = case.child["spec"]["template"]["metadata"]["annotations"]
    annotations[SENSITIVITY_ANNOTATION] = "Insensitive"
    case.reconcile()
    message = case.status.conditions[0].message
    assert message == "bandwidth sensitivity: Insensitive (Profile bert)"
