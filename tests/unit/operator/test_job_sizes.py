"""CPU and memory of the pod in the status of a GPUJob: condition Sized, amounts and gain."""

from typing import Any

import pytest

from gputopo.api.job_resources import JobResources
from gputopo.api.names import (
    PROFILING_STATE_ANNOTATION,
    RESOURCES_ANNOTATION,
    RESOURCES_MAX_ANNOTATION,
)
from gputopo.api.profile import Measurement
from gputopo.api.profiling import CpuAmounts, ProfilingState
from gputopo.api.tuning import Amounts, TunedRecord, format_tuning_request, parse_tuning_request
from gputopo_operator.decision.initial_amounts import tuning_request
from gputopo_operator.model.jobs import ReconcilePlan, WriteErrors
from gputopo_operator.parse.jobs import parse_gpu_job
from support.builders.gpujobs import GPUS, exited
from support.operator.cluster_states import START, Situation

GIB = 2**30
NOW = "4000m CPU, 16Gi memory"
WHY = "4,000m CPU: 45 % faster than with its share of 2,000m"
LIMITS = {"cpu": "4", "memory": "16Gi"}
CREATED = "the amounts with which the pod was created"


def record(**changes: Any) -> dict[str, str]:
    """Return the operator's record: from 2 CPUs to 4 CPUs, which kubelet has applied."""
    known = TunedRecord(
        uid="uid-train-1",
        floor=Amounts(2000, 8 * GIB),
        last=Amounts(2000, 8 * GIB),
        target=Amounts(4000, 16 * GIB),
        since=START,
        reason=WHY,
        done=True,
        before_micro_steps_per_second=8_000_000,
    )
    return {RESOURCES_ANNOTATION: known.model_copy(update=changes).dump()}


def sized(
    annotations: dict[str, str] | None = None,
    *,
    cpu: str = "4",
    fields: dict[str, Any] | None = None,
    **status: Any,
) -> Situation:
    """Return a GPUJob with the mode Auto, whose running pod has 16Gi and this CPU limit."""
    least = {"cpu": 2, "memory": "8Gi"}
    situation = Situation(resources={"mode": "Auto", "min": least, "max": {"cpu": 8}})
    situation.reconcile()
    limits = LIMITS | {"cpu": cpu} if cpu else {}
    main = {"name": "main", "state": {"running": {}}, "resources": {"limits": limits}}
    status = {"containerStatuses": [main], **status}
    situation.pod(node="n1", gpus=GPUS, **{"phase": "Running", **status})
    metadata = situation.pods[0]["metadata"]
    situation.pods[0]["spec"]["containers"][0] |= fields or {"resources": {"limits": LIMITS}}
    spec = parse_gpu_job(situation.job).spec
    assert spec is not None
    metadata["annotations"] |= format_tuning_request(tuning_request(spec.resources))
    metadata["annotations"] |= annotations or {}
    situation.reconcile()
    return situation


def message(situation: Situation) -> str:
    [found] = [each for each in situation.status.conditions if each.type == "Sized"]
    return found.message


def pending(type_: str, reason: str, text: str = "", status: str = "True") -> dict[str, Any]:
    """Return the status of a pod whose resize kubelet has not carried out."""
    found = {"type": type_, "status": status, "reason": reason, "message": text}
    return {"conditions": [found]}


UNDONE = record(done=False, target=Amounts(6000, 24 * GIB))


@pytest.mark.parametrize(
    ("annotations", "status", "expected", "text"),
    [
        (record(), {}, ("True", "Resized"), f"{WHY}; has {NOW}"),
        ({}, {}, ("False", "NotResized"), f"has {NOW}, {CREATED}"),
        (
            record(pinned=True, reason="another client has resized the pod"),
            {},
            ("False", "Pinned"),
            f"another client has resized the pod; has {NOW}",
        ),
        (
            record(rejected=True, reason="the resize to 8000m CPU was deferred for 60 s"),
            {},
            ("False", "Rejected"),
            f"the resize to 8000m CPU was deferred for 60 s; has {NOW}",
        ),
        (UNDONE, {}, ("False", "Resizing"), f"{WHY}; still has {NOW}"),
        (
            UNDONE,
            pending("PodResizePending", "Deferred", "Node didn't have enough capacity: cpu"),
            ("False", "Deferred"),
            f"{WHY}; still has {NOW}: Node didn't have enough capacity: cpu",
        ),
        (
            UNDONE,
            pending("PodResizeInProgress", "Error", "cannot decrease memory limits"),
            ("False", "Error"),
            f"{WHY}; still has {NOW}: cannot decrease memory limits",
        ),
        (
            UNDONE,
            pending("PodResizePending", "Deferred", status="False"),
            ("False", "Resizing"),
            f"{WHY}; still has {NOW}",
        ),
        (record(uid="uid-copied"), {}, ("False", "NotResized"), f"has {NOW}, {CREATED}"),
    ],
)
def test_condition_shows_whether_the_pod_has_its_amounts_and_why(
    annotations: dict[str, str], status: dict[str, Any], expected: tuple[str, str], text: str
) -> None:
    situation = sized(annotations, **status)
    assert situation.condition("Sized") == expected
    assert message(situation) == text


def test_problem_of_an_earlier_resize_is_not_shown() -> None:
    situation = sized(UNDONE, **pending("PodResizePending", "Infeasible", "static"))
    assert situation.condition("Sized") == ("False", "Infeasible")
    situation.pods[0]["metadata"]["generation"] = 3
    situation.pods[0]["status"]["conditions"][0]["observedGeneration"] = 2
    situation.reconcile()
    assert situation.condition("Sized") == ("False", "Resizing")


def measured(*, restored: bool) -> dict[str, str]:
    own = CpuAmounts(request=2000, limit=2000)
    state = ProfilingState(
        uid="uid-train-1",
        container="main",
        original=own,
        most_milli_cpu=8000,
        started=START,
        last=own,
        target=CpuAmounts(request=4000, limit=4000),
        since=START,
        restored=restored,
    )
    return {PROFILING_STATE_ANNOTATION: state.dump()}


def test_amounts_of_a_measurement_are_not_those_of_the_creation() -> None:
    situation = sized(measured(restored=False))
    assert situation.condition("Sized") == ("False", "Measuring")
    why = "gputopo measures the pod with several CPU limits"
    assert message(situation) == f"has {NOW} now: {why}"
    assert situation.status.resources is not None
    assert situation.status.resources.reason == why
    assert sized(measured(restored=True)).condition("Sized") == ("False", "NotResized")


def test_record_that_cannot_be_parsed_is_the_reason() -> None:
    situation = sized({RESOURCES_ANNOTATION: "{"})
    assert situation.condition("Sized") == ("False", "NotPossible")
    assert message(situation).startswith(f"{RESOURCES_ANNOTATION}: ")


def test_pod_that_cannot_be_resized_shows_why_and_what_to_do() -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    situation = sized(fields={"resources": {"limits": LIMITS}, "resizePolicy": policy})
    assert situation.condition("Sized") == ("False", "NotPossible")
    assert "set restartPolicy NotRequired for cpu" in message(situation)


@pytest.mark.parametrize("phase", ["Pending", "Failed"])
def test_pod_that_does_not_run_has_no_size_yet(phase: str) -> None:
    situation = sized(phase=phase)
    assert situation.condition("Sized") == ("False", "NotRunning")


def test_job_without_a_pod_has_no_size_yet() -> None:
    situation = Situation(resources={"mode": "Proportional", "min": {"cpu": 1}})
    situation.reconcile()
    assert situation.condition("Sized") == ("False", "NotRunning")
    situation.pod()
    situation.reconcile()
    assert situation.condition("Sized") == ("False", "NotRunning")
    assert situation.status.resources is None


def test_fixed_job_has_neither_condition_nor_resources() -> None:
    situation = Situation()
    situation.reconcile()
    situation.pod(node="n1", gpus=GPUS, phase="Running")
    situation.reconcile()
    assert "Sized" not in {each.type for each in situation.status.conditions}
    assert situation.status.resources is None


def test_status_shows_the_amounts_in_effect_and_their_reason() -> None:
    assert sized(record()).status.resources == JobResources(
        milli_cpu=4000, memory="16Gi", reason=WHY
    )
    assert sized().status.resources == JobResources(milli_cpu=4000, memory="16Gi", reason=CREATED)


def test_pod_without_limits_has_no_amounts() -> None:
    situation = sized(cpu="")
    assert situation.status.resources is None
    assert message(situation) == f"has no CPU limit, no memory limit, {CREATED}"


def test_placement_without_containers_has_no_amounts() -> None:
    situation = sized()
    annotations = situation.pods[0]["metadata"]["annotations"]
    annotations["gputopo.io/gpus"] = annotations["gputopo.io/gpus"].replace(
        '{"main":["GPU-4","GPU-5","GPU-7"]}', "{}"
    )
    situation.reconcile()
    assert situation.status.resources is None


def measurement(rate: float | None, milli_cpu: int | None = 4000) -> dict[str, Measurement]:
    """Return the agent's measurement of the pod, in steps per second."""
    found = Measurement(
        namespace="default",
        pod="train-1",
        pod_uid="uid-train-1",
        container="main",
        gpus=3,
        source="SDK",
        state="WarmUp" if rate is None else "Steady",
        micro_steps_per_second=None if rate is None else round(rate * 1e6),
        ci_permille=None if rate is None else 10,
        milli_cpu=milli_cpu,
    )
    return {"uid-train-1": found}


def gain(situation: Situation, measured: dict[str, Measurement]) -> int | None:
    situation.measured = measured
    situation.reconcile()
    resources = situation.status.resources
    assert resources is not None
    return resources.gain_percent


@pytest.mark.parametrize(
    ("annotations", "measured", "expected"),
    [
        (record(), measurement(12.0), 50),
        (record(), measurement(6.0, None), -25),
        (record(), measurement(12.0, 2000), None),
        (record(), measurement(None), None),
        (record(), {}, None),
        (record(done=False), measurement(12.0), None),
        (record(before_micro_steps_per_second=0), measurement(12.0), None),
        ({}, measurement(12.0), None),
    ],
)
def test_gain_compares_the_current_rate_with_that_before_the_resize(
    annotations: dict[str, str], measured: dict[str, Measurement], expected: int | None
) -> None:
    assert gain(sized(annotations), measured) == expected


def test_gain_is_unknown_while_the_rate_is_measured_again() -> None:
    situation = sized(record())
    assert gain(situation, measurement(12.0)) == 50
    assert gain(situation, measurement(None)) is None
    assert gain(situation, measurement(10.0)) == 25


def test_gain_stays_while_the_agent_reports_nothing() -> None:
    situation = sized(record())
    assert gain(situation, measurement(12.0)) == 50
    assert gain(situation, {}) == 50
    resources = situation.pods[0]["status"]["containerStatuses"][0]["resources"]
    resources["limits"]["cpu"] = "3"
    assert gain(situation, {}) is None


def test_small_changes_of_the_rate_do_not_change_the_status() -> None:
    situation = sized(record())
    assert gain(situation, measurement(12.0)) == 50
    situation.measured = measurement(12.1)
    assert situation.plan() == ReconcilePlan()


def test_size_stays_in_the_status_after_the_end() -> None:
    situation = sized(record())
    assert gain(situation, measurement(12.0)) == 50
    situation.measured = {}
    situation.pods[0]["status"] |= exited(0)
    situation.job_ended("Complete", "CompletionsReached").reconcile()
    assert situation.condition("Sized") == ("True", "Resized")
    situation.pods = []
    situation.reconcile()
    situation.child = None
    situation.reconcile()
    assert situation.condition("Sized") == ("True", "Resized")
    assert situation.status.resources == JobResources(
        milli_cpu=4000, memory="16Gi", reason=WHY, gain_percent=50
    )


def test_new_pod_does_not_show_the_size_of_the_former_pod() -> None:
    situation = sized(record())
    situation.pods[0]["status"] |= {"phase": "Failed"}
    situation.pod("train-2", node="n2", gpus=GPUS, phase="Running")
    situation.reconcile()
    assert situation.status.resources is None


@pytest.mark.parametrize(
    ("most", "expected"),
    [({"cpu": 16, "memory": "64Gi"}, "cpu=16000m,memory=64Gi"), (None, None)],
)
def test_running_pod_gets_changed_largest_amounts(
    most: dict[str, Any] | None, expected: str | None
) -> None:
    situation = sized(record())
    assert situation.plan().pod_patch is None
    situation.job["spec"]["resources"]["max"] = most
    plan = situation.plan()
    metadata = {"uid": "uid-train-1", "annotations": {RESOURCES_MAX_ANNOTATION: expected}}
    assert plan.pod_patch == ("train-1", {"metadata": metadata})
    situation.reconcile()
    annotations = situation.pods[0]["metadata"]["annotations"]
    assert annotations.get(RESOURCES_MAX_ANNOTATION) == expected
    assert parse_tuning_request(annotations).most_milli_cpu == (16_000 if most else None)


def test_ended_pod_is_not_changed() -> None:
    situation = sized(record(), phase="Succeeded")
    situation.job["spec"]["resources"]["max"] = {"cpu": 16}
    assert situation.plan().pod_patch is None


def test_largest_amount_that_no_node_has_is_shown_and_not_copied() -> None:
    situation = sized(record())
    situation.job["spec"]["resources"]["max"] = {"cpu": 10**9}
    situation.reconcile()
    assert situation.condition("Sized") == ("False", "SpecRefused")
    assert message(situation).startswith("spec.resources.max.cpu: 1000000000 is not a quantity")
    annotations = situation.pods[0]["metadata"]["annotations"]
    assert annotations[RESOURCES_MAX_ANNOTATION] == "cpu=8000m"


def test_rejected_change_of_the_pod_is_reported_and_tried_again() -> None:
    situation = sized(record())
    situation.job["spec"]["resources"]["max"] = {"cpu": 16}
    situation.errors = WriteErrors(pod_patch="denied by policy")
    plan = situation.plan()
    [event] = plan.events
    assert (event.type, event.reason) == ("Warning", "PodNotUpdated")
    assert event.note == "pod train-1 keeps its former resources.max: denied by policy"
    assert plan.recheck_after_seconds == 60.0
