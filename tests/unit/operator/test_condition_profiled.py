"""The condition Profiled of a GPUJob shows the measurement of its pod with several CPU limits."""

from typing import Any

import pytest

from gputopo.api.names import PROFILING_STATE_ANNOTATION
from gputopo.api.profiling import CpuAmounts, ProfilingState
from support.builders.gpujobs import GPUS
from support.operator.cluster_states import START, Situation


def profiling_annotation(**changes: Any) -> dict[str, str]:
    """Return the annotation of a pod whose CPUs are measured."""
    own = CpuAmounts(request=4000, limit=4000)
    state = ProfilingState(
        uid="uid-train-1",
        container="main",
        original=own,
        most_milli_cpu=8000,
        started=START,
        last=own,
        target=CpuAmounts(request=8000, limit=8000),
        since=START,
    )
    return {PROFILING_STATE_ANNOTATION: state.model_copy(update=changes).dump()}


def measured(annotations: dict[str, str]) -> Situation:
    situation = Situation(profiling={"measure": ["CPUs"]})
    situation.reconcile()
    assert situation.condition("Profiled") == ("False", "Waiting")
    situation.pod("train-1", node="n1", gpus=GPUS, phase="Running")
    situation.pods[0]["metadata"]["annotations"] |= annotations
    situation.reconcile()
    return situation


@pytest.mark.parametrize(
    ("changes", "expected", "message"),
    [
        (
            {},
            ("False", "Measuring"),
            "CPUs: waiting for a sample with a limit of 8000m; measurements so far: 0",
        ),
        ({"result": "Done", "message": "3 points"}, ("False", "Restoring"), "CPUs: 3 points"),
        (
            {"result": "Done", "message": "3 points", "restored": True},
            ("True", "Done"),
            "CPUs: 3 points",
        ),
        (
            {"result": "TimeLimit", "message": "2 points", "restored": True},
            ("False", "TimeLimit"),
            "CPUs: 2 points",
        ),
    ],
)
def test_condition_profiled_shows_the_measurement_of_the_pod(
    changes: dict[str, Any], expected: tuple[str, str], message: str
) -> None:
    situation = measured(profiling_annotation(**changes))
    assert situation.condition("Profiled") == expected
    [condition] = [each for each in situation.status.conditions if each.type == "Profiled"]
    assert condition.message.startswith(message)


def test_condition_profiled_stays_when_the_pod_is_replaced_or_the_job_ends() -> None:
    done = profiling_annotation(result="Done", message="3 points", restored=True)
    situation = measured(done)
    situation.pods = []
    situation.reconcile()
    assert situation.condition("Profiled") == ("True", "Done")
    situation.job_ended("Complete", "CompletionsReached").reconcile()
    assert situation.child is not None
    situation.child = None
    situation.reconcile()
    assert situation.condition("Profiled") == ("True", "Done")


def test_unreadable_profiling_state_is_ignored() -> None:
    situation = measured({PROFILING_STATE_ANNOTATION: "{"})
    assert situation.condition("Profiled") == ("False", "Waiting")


def test_job_that_measures_nothing_has_no_condition_profiled() -> None:
    situation = Situation()
    situation.reconcile()
    assert "Profiled" not in {each.type for each in situation.status.conditions}
