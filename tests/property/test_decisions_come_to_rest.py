"""Whatever state a GPUJob is found in, deciding is safe to repeat."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpujobs import GPUS, exited, job_pod, refused_by_kubelet
from gputopo.api.v1alpha1 import GPUProfileSpec
from gputopo_operator.model import Plan, Refusal
from gputopo_operator.parse import QUEUE_LABEL
from situations import Situation

DELETED = {"deletionTimestamp": "2026-01-01T02:00:00Z"}
DISRUPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}

pod_states: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"node": "n1"},
        {"node": "n1", "gpus": GPUS},
        {"node": "n1", "gpus": GPUS, "phase": "Running"},
        {"node": "n1", "gpus": GPUS, **exited(0)},
        {"node": "n1", "gpus": GPUS, **exited(1)},
        {"node": "n1", "gpus": GPUS, **exited(1), **DISRUPTED},
        {"node": "n1", "gpus": GPUS, **refused_by_kubelet()},
    ]
)
job_states: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "failed": st.integers(0, 40),
        "conditions": st.sampled_from(
            [
                [],
                [{"type": "Complete", "status": "True"}],
                [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}],
            ]
        ),
    }
)
specs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "suspend": st.booleans(),
        "labels": st.sampled_from([{}, {QUEUE_LABEL: "research"}]),
        "limits": st.fixed_dictionaries(
            {"backoffLimit": st.integers(0, 3), "maxAdmissionRetries": st.integers(0, 3)}
        ),
        "resources": st.sampled_from([{}, {"container": "nobody"}]),
        "workload": st.sampled_from([{}, {"profile": "resnet50"}]),
    }
)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """A GPUJob at any point of its life, with the cluster gone on without the operator."""
    situation = Situation(**draw(specs))
    if draw(st.booleans()):
        situation.profile = GPUProfileSpec(bandwidth_sensitivity_percent=draw(st.integers(0, 100)))
    if draw(st.booleans()):
        situation.refusal = Refusal("refused", permanent=draw(st.booleans()))
    situation.profile_error = draw(st.sampled_from(["", "exceeded quota"]))
    for _ in range(draw(st.integers(0, 3))):
        situation.carry_out(situation.plan())
        _go_on(draw, situation)
    return situation


def _go_on(draw: Callable[[st.SearchStrategy[Any]], Any], situation: Situation) -> None:
    if situation.child is None:
        return
    if draw(st.integers(0, 9)) == 0:
        situation.child, situation.pods = None, []
        return
    situation.child["status"] = draw(job_states)
    situation.child["spec"]["suspend"] = draw(st.booleans())
    number = draw(st.integers(0, 5))
    name = f"train-{situation.children}-{number}"
    situation.pods = [pod for pod in situation.pods if pod["metadata"]["name"] != name]
    pod = job_pod(situation.child, name, **draw(pod_states))
    if draw(st.booleans()):
        pod["metadata"] |= DELETED
    situation.pods.append(pod)
    held = draw(st.sampled_from([(), GPUS, GPUS[:2], ("GPU-0",)]))
    situation.observed = {pod["metadata"]["uid"]: held}


@settings(max_examples=300, deadline=None)
@given(situations())
def test_carrying_a_plan_out_leaves_nothing_to_do(situation: Situation) -> None:
    refused = situation.refusal is not None and situation.plan().create_job is None
    situation.carry_out(situation.plan())
    if not refused:
        situation.refusal = None
        # What had to be read anew (a Job just made) may want one more look, not two.
        situation.carry_out(situation.plan())
    again = situation.plan()
    assert again == Plan(recheck_after_s=again.recheck_after_s)


@settings(max_examples=300, deadline=None)
@given(situations(), st.data())
def test_end_of_a_job_and_its_failures_are_never_taken_back(
    situation: Situation, data: st.DataObject
) -> None:
    situation.carry_out(situation.plan())
    before = situation.status
    _go_on(data.draw, situation)
    situation.carry_out(situation.plan())
    after = situation.status
    assert after.failures.application >= before.failures.application
    assert after.failures.admission >= before.failures.admission
    if before.phase in {"Succeeded", "Failed"}:
        assert after.phase == before.phase


@settings(max_examples=300, deadline=None)
@given(situations())
def test_remembered_pods_are_only_those_that_exist(situation: Situation) -> None:
    situation.carry_out(situation.plan())
    existing = {pod["metadata"]["uid"] for pod in situation.pods}
    assert set(situation.status.failed_pod_uids) <= existing
