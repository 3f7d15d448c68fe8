"""The pure parts of the experiment ``faults`` of ``tools/resize``, on values."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gputopo.api.names import JOB_LABEL, RESOURCE, TUNED_LABEL
from gputopo.api.profile import GPUProfileSpec
from gputopo.api.tuning import Amounts, TunedRecord
from gputopo.api.v1alpha1 import GPUJobSpec
from resizetest import faultpods, sight
from resizetest.faultpods import Worker
from resizetest.sight import Expected

MI = 2**20
START = "2026-01-01T00:00:00Z"
RECORD = TunedRecord(
    uid="uid-a",
    floor=Amounts(50, MI),
    last=Amounts(50, MI),
    target=Amounts(100, MI),
    since=START,
    done=True,
)


def pod(**status: Any) -> dict[str, Any]:
    """A running pod with 100m CPU and 64 MiB, and the operator's record."""
    given = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "main", "resources": {"requests": given, "limits": given}}
    seen = {"name": "main", "restartCount": 0, "allocatedResources": given}
    annotations = {"gputopo.io/resources": RECORD.dump()}
    return {
        "metadata": {
            "name": "a",
            "namespace": "test",
            "uid": "uid-a",
            "annotations": annotations,
        },
        "spec": {"nodeName": "n2", "containers": [container]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{**seen, "resources": {"limits": given}, **status}],
        },
    }


def event(reason: str, second: int = 0, uid: str = "uid-a", by: str = "operator") -> dict[str, Any]:
    return {
        "regarding": {"uid": uid},
        "reportingController": f"gputopo.io/{by}",
        "eventTime": f"2026-01-01T00:00:{second:02}Z",
        "reason": reason,
        "note": f"note of {reason}",
    }


def job(status: str, reason: str) -> dict[str, Any]:
    condition = {"type": "Sized", "status": status, "reason": reason, "message": "why"}
    return {"status": {"conditions": [{"type": "Accepted"}, condition]}}


EXPECTED = Expected(["Resized"], "note of Res", "True Resized", 100, 64 * MI, record={"done": True})


def test_sight_has_the_operators_events_of_the_pod_in_order() -> None:
    events = [
        event("ResizedByOther", 9),
        event("Resized", 1),
        event("Resized", 2, uid="other"),
        event("Scheduled", 3, by="scheduler"),
    ]
    seen = sight.parse(pod(), job("True", "Resized"), events)
    assert seen.reasons == ["Resized", "ResizedByOther"]
    assert (seen.condition, seen.message) == ("True Resized", "why")
    assert (seen.milli_cpu, seen.memory, seen.record) == (100, 64 * MI, RECORD)
    assert sight.parse(pod(), None, []).condition == ""


def test_pod_as_expected_has_no_differences() -> None:
    seen = sight.parse(pod(), job("True", "Resized"), [event("Resized")])
    assert sight.differences(seen, EXPECTED) == []
    without_job = sight.parse(pod(), None, [event("Resized")])
    assert sight.differences(without_job, EXPECTED) == []


def test_each_difference_is_named() -> None:
    changed = pod(restartCount=1, resources={"limits": {"cpu": "50m", "memory": "32Mi"}})
    problem = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    changed["status"]["conditions"] = [problem]
    del changed["metadata"]["annotations"]
    found = sight.differences(sight.parse(changed, job("False", "Deferred"), []), EXPECTED)
    assert found == [
        "events: [], expected ['Resized']",
        "restarts: 1, expected 0",
        "kubelet's problem: 'PodResizePending Deferred', expected ''",
        "condition Sized: 'False Deferred', expected 'True Resized'",
        "CPU limit: 50, expected 100",
        f"memory limit: {32 * MI}, expected {64 * MI}",
        "done: None, expected True",
    ]
    renamed = sight.parse(pod(), None, [event("Resized") | {"note": "other"}])
    assert sight.differences(renamed, EXPECTED) == ["no event has the note 'note of Res'"]


@pytest.mark.parametrize("holds", [True, False])
def test_worker_is_a_job_or_a_pod_with_the_same_sizes(*, holds: bool) -> None:
    worker = Worker("a", "n2", 2, 50, "128Mi", 100, profile="faults", holds=holds)
    spec = GPUJobSpec.model_validate(faultpods.job(worker, "image")["spec"]).resources
    assert spec.mode == "Proportional"
    made = faultpods.pod(worker, "image")
    assert made["metadata"]["annotations"]["gputopo.io/resources-max"] == "cpu=100m"
    assert made["metadata"]["labels"] == {TUNED_LABEL: "true"}
    [container] = made["spec"]["containers"]
    assert container["command"][0] == ("python3" if holds else "sleep")
    assert container["resources"]["limits"] == {"cpu": "50m", "memory": "128Mi", RESOURCE: "2"}
    assert container["resources"]["requests"] == {"cpu": "50m", "memory": "128Mi"}


def test_worker_can_have_a_limit_above_its_request_or_no_mode() -> None:
    burstable = faultpods.pod(Worker("a", "n2", 1, 200, "128Mi", burst_milli_cpu=1), "image")
    assert burstable["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "201m"
    fixed = faultpods.pod(Worker("a", "n2", 1, sized=False), "image")
    assert "labels" not in fixed["metadata"]


def test_filler_and_static_pod_request_what_they_take_from_the_node() -> None:
    filler = faultpods.filler("b", "n2", 7 * MI, "image")["spec"]["containers"][0]
    assert filler["resources"]["requests"] == {"cpu": "1m", "memory": str(7 * MI)}
    static = faultpods.static_pod("c", 1000, "image")
    assert static["metadata"]["namespace"] == "gputopo-does-not-exist"
    assert "nodeSelector" not in static["spec"]
    assert json.loads(json.dumps(static)) == static


def test_profile_describes_a_data_set_that_no_node_can_cache() -> None:
    spec = GPUProfileSpec.model_validate(faultpods.profile("faults")["spec"])
    assert spec.dataset is not None
    assert spec.memory_floor == "64Mi"


def test_the_newest_pod_of_a_job_is_seen() -> None:
    rejected, running = pod(), pod()
    for each, name, created in ((running, "a-1", "2026-01-01T00:00:09Z"), (rejected, "a-2", START)):
        each["metadata"] |= {"name": name, "creationTimestamp": created}
        each["metadata"]["labels"] = {JOB_LABEL: "a"}
    objects = {"/pods": [running, rejected], "/jobs/a": job("True", "Resized")}

    class Client:
        def get(self, path: str) -> Any:
            return objects.get(path) if path == "/jobs/a" else {"items": objects.get(path, [])}

    bench = SimpleNamespace(client=Client(), pods="/pods", jobs="/jobs", namespace="test")
    assert sight.look(cast("Any", bench), "a").pod.name == "test/a-1"
