"""The decision on a GPUJob in any state can be repeated safely."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gputopo.api.profile import GPUProfile, GPUProfileSpec
from gputopo_operator.model.jobs import ReconcilePlan, WriteErrors
from gputopo_operator.parse.jobs import QUEUE_LABEL
from support.builders.gpujobs import GPUS, exited, job_pod, rejected_by_kubelet
from support.operator.cluster_states import Situation
from support.profiling.pods import sample

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
        {"node": "n1", "gpus": GPUS, **rejected_by_kubelet()},
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
        "resources": st.sampled_from([{}, {"container": "missing"}]),
        "workload": st.sampled_from([{}, {"profile": "resnet50"}]),
        "profiling": st.sampled_from([{}, {"measure": ["Links"]}, {"measure": ["CPUs", "Links"]}]),
    }
)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """A GPUJob in any state, after changes of the cluster that the operator has not seen."""
    situation = Situation(**draw(specs))
    situation.queued = draw(st.booleans())
    if draw(st.booleans()):
        situation.profile = GPUProfile(
            spec=GPUProfileSpec(bandwidth_sensitivity_percent=draw(st.integers(0, 100)))
        )
    situation.errors = WriteErrors(
        job=draw(st.sampled_from(["", "rejected"])),
        job_is_permanent=draw(st.booleans()),
        profile=draw(st.sampled_from(["", "exceeded quota"])),
        link_run=draw(st.sampled_from(["", "exceeded quota"])),
    )
    for _ in range(draw(st.integers(0, 3))):
        situation.write(situation.plan())
        _change_cluster(draw, situation)
    return situation


def _change_cluster(draw: Callable[[st.SearchStrategy[Any]], Any], situation: Situation) -> None:
    _change_link_runs(draw, situation)
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
    used = draw(st.sampled_from([(), GPUS, GPUS[:2], ("GPU-0",)]))
    situation.observed = {pod["metadata"]["uid"]: used}


def _change_link_runs(draw: Callable[[st.SearchStrategy[Any]], Any], situation: Situation) -> None:
    for name, run in situation.runs.items():
        run["status"] = draw(job_states)
        pod = job_pod(run, f"{name}-1", **draw(pod_states))
        uid = pod["metadata"]["uid"]
        situation.pods = [each for each in situation.pods if each["metadata"]["uid"] != uid]
        situation.pods.append(pod)
        if draw(st.booleans()):
            situation.samples[uid] = [sample(8000, pod_uid=uid)] * draw(st.sampled_from([1, 3]))


@settings(max_examples=300, deadline=None)
@given(situations())
def test_plan_after_the_writes_of_a_plan_is_empty(situation: Situation) -> None:
    rejected = bool(situation.errors.job) and situation.plan().create_job is None
    situation.write(situation.plan())
    if not rejected:
        situation.errors = replace(situation.errors, job="")
        # A Job that was just created may need one more decision, not two. Before it, two short runs
        # may end, and the second one may be created.
        for _ in range(1 + 3 * bool(situation.runs)):
            situation.write(situation.plan())
    again = situation.plan()
    assert again == ReconcilePlan(recheck_after_seconds=again.recheck_after_seconds)


@settings(max_examples=300, deadline=None)
@given(situations(), st.data())
def test_result_and_failures_of_a_job_never_change_back(
    situation: Situation, data: st.DataObject
) -> None:
    situation.write(situation.plan())
    before = situation.status
    _change_cluster(data.draw, situation)
    situation.write(situation.plan())
    after = situation.status
    assert after.failures.application >= before.failures.application
    assert after.failures.admission >= before.failures.admission
    if before.phase in {"Succeeded", "Failed"}:
        assert after.phase == before.phase


@settings(max_examples=300, deadline=None)
@given(situations())
def test_counted_pods_in_the_status_exist(situation: Situation) -> None:
    situation.write(situation.plan())
    existing = {pod["metadata"]["uid"] for pod in situation.pods}
    assert set(situation.status.failed_pod_uids) <= existing
