"""The pure parts of ``tools/resize``, on values."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faulttest import command
from gputopo.api.names import TUNED_LABEL
from gputopo.api.tuning import ResourcesMode, TuningRequest, parse_tuning_request
from gputopo.api.v1alpha1 import GPUJobSpec
from learntest import experiment
from learntest.experiment import Options
from learntest.manifests import Run
from resizetest import amounts, manifests, picture
from resizetest.amounts import Amount, PodAmounts
from resizetest.catalogue import EXPERIMENTS
from resizetest.manifests import Sizing
from resizetest.reserved import reserved
from resizetest.timeline import Timeline

RUN = Run("run-1", {"seconds": 0.1}, "n1", gpus=1, milli_cpu=50)
SIZING = Sizing(ResourcesMode.AUTO, 400, "64Mi", 2**28)
MI = 2**20


def pod(
    *,
    spec: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    conditions: Any = (),
    **more: Any,
) -> dict[str, Any]:
    """A pod with one container; kubelet has applied its requests of 100m and 64 MiB."""
    requests = spec or {"cpu": "100m", "memory": "64Mi"}
    given: dict[str, Any] = {
        "name": "main",
        "restartCount": 0,
        "allocatedResources": requests,
        "resources": {"limits": requests, "requests": requests},
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    container = {"name": "main", "resources": {"requests": requests}}
    return {
        "metadata": {"name": "a", "namespace": "test", "uid": "uid-a"},
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [given | dict(status or {})],
            "conditions": list(conditions),
        }
        | more,
    }


def test_job_and_pod_of_a_run_request_the_same_sizes() -> None:
    made = manifests.pod(RUN, SIZING, "image")
    annotations = made["metadata"]["annotations"]
    assert parse_tuning_request(annotations) == TuningRequest(ResourcesMode.AUTO, 400, 2**28)
    assert made["metadata"]["labels"] == {TUNED_LABEL: "true"}
    job = manifests.job(RUN, SIZING, "image")
    resources = GPUJobSpec.model_validate(job["spec"]).resources
    assert resources.to_json() == {
        "mode": "Auto",
        "min": {"cpu": "50m", "memory": "64Mi"},
        "max": {"cpu": "400m", "memory": str(2**28)},
    }
    for spec in (made["spec"], job["spec"]["template"]["spec"]):
        resources = spec["containers"][0]["resources"]
        assert resources["requests"] == {"cpu": "50m", "memory": "64Mi"}
        assert resources["limits"] | resources["requests"] == resources["limits"]


def test_job_without_bounds_has_none() -> None:
    job = manifests.job(RUN, Sizing(ResourcesMode.PROPORTIONAL), "image")
    assert job["spec"]["resources"] == {"mode": "Proportional", "min": {"cpu": "50m"}}


def test_fixed_run_is_not_sized() -> None:
    fixed = Sizing(ResourcesMode.FIXED)
    assert "labels" not in manifests.pod(RUN, fixed, "image")["metadata"]
    assert "resources" not in manifests.job(RUN, fixed, "image")["spec"]


def test_filler_requests_cpus_from_the_default_scheduler() -> None:
    spec = manifests.filler("rest", "n1", 700, "image")["spec"]
    assert "schedulerName" not in spec
    assert spec["containers"][0]["resources"]["requests"]["cpu"] == "700m"


def test_amounts_are_those_of_spec_and_kubelet() -> None:
    running = pod(
        spec={"cpu": "0.2", "memory": "64Mi"},
        status={
            "allocatedResources": {"cpu": "150m", "memory": "64Mi"},
            "resources": {"limits": {"cpu": "100m", "memory": "128Mi"}},
            "restartCount": 2,
        },
        conditions=[
            {"type": "Ready", "status": "True"},
            {"type": "PodResizeInProgress", "status": "False"},
            {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "full"},
        ],
    )
    read = amounts.read(running)
    assert read == PodAmounts(
        "test/a",
        requests=Amount(200, 64 * MI),
        allocated=Amount(150, 64 * MI),
        limits=Amount(100, 128 * MI),
        restarts=2,
        started=("2026-01-01T00:00:00Z",),
        problem="PodResizePending Deferred full",
    )
    assert read.counted == Amount(200, 64 * MI)
    assert str(read).startswith("spec 200m, allocated 150m, limit in effect 100m PodResizePending")


def test_pod_without_a_status_holds_its_requests_and_may_be_rejected() -> None:
    bound = pod(containerStatuses=[])
    assert amounts.read(bound).allocated == Amount(100, 64 * MI)
    assert amounts.is_accepted(bound)
    del bound["status"]["startTime"]
    assert amounts.holds(bound)
    assert not amounts.is_accepted(bound)
    assert amounts.read(bound).started == ("",)
    assert not amounts.read(bound).problem


@pytest.mark.parametrize(
    ("phase", "expected"), [("Running", True), ("Pending", True), ("Failed", False)]
)
def test_pod_on_a_node_holds_amounts_until_it_has_ended(phase: str, expected: object) -> None:
    found = pod(phase=phase)
    assert amounts.holds(found) is expected
    del found["spec"]["nodeName"]
    assert not amounts.holds(found)


def test_allocatable_of_a_node_is_read() -> None:
    node = {"status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}}}
    assert amounts.allocatable(node) == Amount(2000, 2**32)


def test_sums_above_allocatable_are_found() -> None:
    one, timeline = amounts.read(pod()), Timeline()
    assert timeline.add(0, {"a": one})
    assert timeline.add(1, {"a": one, "b": one})
    assert not timeline.add(2, {"a": one, "b": one})
    above = list(timeline.above(Amount(199, 2**30)))
    assert [moment.seconds for moment in above] == [1]
    assert list(timeline.above(Amount(200, 128 * MI))) == []


def test_last_change_of_a_namespace_is_found() -> None:
    one, other, timeline = amounts.read(pod()), amounts.read(pod()), Timeline()
    other = replace(other, name="elsewhere/b")
    raised = replace(one, requests=Amount(300, 64 * MI))
    timeline.add(0, {"a": one})
    assert timeline.last_change("test") == 0
    timeline.add(1, {"a": raised})
    timeline.add(2, {"a": raised, "b": other})
    assert timeline.last_change("test") == 1
    assert timeline.last_change("elsewhere") == 2


def test_picture_has_an_area_for_each_pod_and_one_for_all_others(tmp_path: Path) -> None:
    one, timeline = amounts.read(pod()), Timeline()
    other, filler = replace(one, name="elsewhere/b"), replace(one, name="test/filler")
    timeline.add(0, {"b": other, "c": filler})
    timeline.add(5, {"a": replace(one, name="test/train-x7bcd"), "b": other, "c": filler})
    timeline.end(9)
    areas = {"other pods": [200, 200, 200], "train": [0, 100, 100]}
    assert picture.areas(timeline, "test", "filler") == ([0, 5, 9], areas)
    file = tmp_path / "amounts.svg"
    picture.draw(timeline, "test", 2000, {"a starts": 5}, file)
    assert "a starts" in file.read_text()


@pytest.mark.parametrize(
    "status",
    [{"restartCount": 1}, {"state": {"running": {"startedAt": "2026-01-01T01:00:00Z"}}}],
    ids=["restart count", "start time"],
)
def test_restarted_pods_are_found(status: Mapping[str, Any]) -> None:
    timeline = Timeline()
    timeline.add(0, {"a": amounts.read(pod(containerStatuses=[]))})
    timeline.add(1, {"a": amounts.read(pod())})
    timeline.add(2, {})
    assert timeline.restarted() == {}
    timeline.add(3, {"a": amounts.read(pod(status=status))})
    assert list(timeline.restarted()) == ["test/a"]


def test_every_experiment_is_found_by_its_name() -> None:
    assert {name: one.name for name, one in EXPERIMENTS.items()} == {
        name: name for name in EXPERIMENTS
    }
    assert {"share", "four-jobs"} <= set(EXPERIMENTS)


def test_command_line_has_the_options_of_an_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    parser = command.parser("resize", "Text.", "experiment", EXPERIMENTS, "side by side")
    experiment.add_options(parser)
    parsed = parser.parse_args(["share", "--rounds", "2", "--seconds", "3", "--seed", "4"])
    assert parsed.cases == ["share"]
    assert experiment.options_of(parsed) == Options(2, 3.0, 4)
    with pytest.raises(SystemExit):
        parser.parse_args(["unknown"])
    assert "invalid choice: 'unknown'" in capsys.readouterr().err


def test_words_in_place_of_names_are_allowed() -> None:
    parser = command.parser("faults", None, "scenario", EXPERIMENTS, "or `all`", more=["all"])
    assert parser.parse_args(["all"]).cases == ["all"]
    text = " ".join(parser.format_help().split())
    assert f"share {EXPERIMENTS['share'].summary}" in text


def test_node_is_reserved_for_one_program(tmp_path: Path) -> None:
    said: list[str] = []
    ended = threading.Event()

    def other() -> None:
        with reserved("n1", said.append, tmp_path):
            ended.set()

    thread = threading.Thread(target=other)
    with reserved("n1", said.append, tmp_path), reserved("n2", said.append, tmp_path):
        assert said == []
        thread.start()
        while thread.is_alive() and not said:
            thread.join(0.01)
        with reserved(None, said.append, tmp_path):
            assert not ended.wait(0.2)
    thread.join()
    assert ended.is_set()
