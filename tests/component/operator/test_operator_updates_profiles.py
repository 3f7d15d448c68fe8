"""Samples that agents publish reach the GPUProfiles of their workloads, and rates their GPUJobs."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.api.faults import Fault
from support.api.server import ApiServer, serving_in_thread
from support.builders.gpujobs import GPUS, bind, gpu_job, job_pod
from support.builders.node_reports import gpu_profile, measurement, node_sample, reporting
from support.operator.process import Operator, eventually


@pytest.fixture
def two_operators(tmp_path: Path) -> Iterator[tuple[Operator, Operator]]:
    """Two operators of one API server, as during a failed update of the Deployment."""
    with serving_in_thread(ApiServer()) as api:
        folders = tmp_path / "first", tmp_path / "second"
        for folder in folders:
            folder.mkdir()
        first, second = (Operator(api, folder, resync_seconds=2.0) for folder in folders)
        first.start()
        second.start()
        yield first, second
        for each in (first, second):
            assert each.stop() == 0, each.log
            assert "Traceback" not in each.log, each.log


def sampled(api: ApiServer, name: str = "bert") -> list[str]:
    """Return the pods of the samples in a GPUProfile."""
    samples = (api.get("gpuprofiles", name) or {}).get("status", {}).get("samples", [])
    return [sample["podUID"] for sample in samples]


def put_report(api: ApiServer, node: str, **report: Any) -> None:
    """Replace the status of a node's GPUTopology, as its agent does."""
    topology = reporting(node, **report)
    if api.create("gputopologies", topology) is None:
        api.change("gputopologies", node, lambda found: found.update(status=topology["status"]))


def wait_samples(operator: Operator, pods: list[str], name: str = "bert") -> None:
    eventually(f"samples of {pods}", lambda: sampled(operator.api, name) == pods)


def profile_writes(api: ApiServer) -> int:
    return sum("/gpuprofiles/" in write.path for write in api.writes)


def test_first_run_of_a_workload_creates_its_profile(own_operator: Operator) -> None:
    running = measurement("u1", podUID="u1", state="WarmUp", microStepsPerSecond=None)
    put_report(own_operator.api, "n1", measurements=[running])
    eventually("the profile", lambda: own_operator.api.get("gpuprofiles", "bert"))
    put_report(own_operator.api, "n1", measurements=[running], samples=[node_sample(1)])
    wait_samples(own_operator, ["u1"])


def test_sample_of_two_lists_and_many_events_counts_once(own_operator: Operator) -> None:
    api = own_operator.api
    api.create("gpuprofiles", gpu_profile())
    for number in range(5):
        others = [node_sample(0, profile=f"other-{number}")]
        put_report(api, "n1", samples=[node_sample(1), *others])
        put_report(api, "n2", samples=[node_sample(1), node_sample(2)])
    wait_samples(own_operator, ["u1", "u2"])
    own_operator.wait_until_idle()
    assert sampled(api) == ["u1", "u2"]
    profile = api.get("gpuprofiles", "bert")
    assert profile is not None
    assert profile["status"]["sampleCount"] == 2


def test_two_operators_write_each_sample_once(two_operators: tuple[Operator, Operator]) -> None:
    first, _ = two_operators
    api = first.api
    api.create("gpuprofiles", gpu_profile())
    expected: list[str] = []
    for number in range(6):
        put_report(api, f"n{number}", samples=[node_sample(number)])
        expected.append(f"u{number}")
        wait_samples(first, expected)
    first.wait_until_idle()
    assert sampled(api) == expected
    # The first write is for the empty status; a conflict is no write.
    assert profile_writes(api) <= len(expected) + 1


def test_samples_of_the_time_without_an_operator_are_added_after_its_restart(
    own_operator: Operator,
) -> None:
    api = own_operator.api
    api.create("gpuprofiles", gpu_profile())
    put_report(api, "n1", samples=[node_sample(1)])
    wait_samples(own_operator, ["u1"])
    own_operator.kill()
    put_report(api, "n1", samples=[node_sample(1), node_sample(2)])
    put_report(api, "n2", samples=[node_sample(3)])
    own_operator.start()
    wait_samples(own_operator, ["u1", "u2", "u3"])


def test_samples_that_a_watch_loses_are_found_by_the_resync(own_operator: Operator) -> None:
    api = own_operator.api
    api.create("gpuprofiles", gpu_profile())
    put_report(api, "n1", samples=[node_sample(1)])
    wait_samples(own_operator, ["u1"])
    api.mute = True
    put_report(api, "n1", samples=[node_sample(2)])
    wait_samples(own_operator, ["u1", "u2"])


def test_profile_that_is_deleted_between_two_samples_begins_again(own_operator: Operator) -> None:
    api = own_operator.api
    api.create("gpuprofiles", gpu_profile())
    put_report(api, "n1", samples=[node_sample(1)])
    wait_samples(own_operator, ["u1"])
    api.delete("gpuprofiles", "bert")
    own_operator.wait_until_idle()
    assert api.get("gpuprofiles", "bert") is None, "no running pod names it"
    api.create("gpuprofiles", gpu_profile(created="2026-01-02T10:00:02Z"))
    put_report(api, "n1", samples=[node_sample(1), node_sample(3)])
    wait_samples(own_operator, ["u3"])


def test_edited_profile_keeps_its_samples_and_shows_the_declared_value(
    own_operator: Operator,
) -> None:
    api = own_operator.api
    api.create("gpuprofiles", gpu_profile())
    put_report(api, "n1", samples=[node_sample(1)])
    wait_samples(own_operator, ["u1"])
    spec = {"bandwidthSensitivityPercent": 45}
    api.change("gpuprofiles", "bert", lambda profile: profile.update(spec=spec))

    def declared() -> bool:
        status = (api.get("gpuprofiles", "bert") or {})["status"]
        return status["observedGeneration"] == 2 and '"Declared"' in status["podAnnotation"]

    eventually("the declared value", declared)
    assert sampled(api) == ["u1"]


def test_failing_requests_lose_no_sample(own_operator: Operator) -> None:
    api = own_operator.api
    api.create("gpuprofiles", gpu_profile())
    api.faults += [
        Fault("PATCH", "/gpuprofiles/bert/status", 409),
        Fault("PATCH", "/gpuprofiles/bert/status", 500),
        Fault("GET", "/gpuprofiles/bert$", 503),
    ]
    put_report(api, "n1", samples=[node_sample(1)])
    wait_samples(own_operator, ["u1"])
    assert api.faults == []


def put_rates(api: ApiServer, node: str, **rates: int) -> None:
    """Report the rates of the first pods of these GPUJobs, in 10^-6 steps per second."""
    found = [
        measurement(f"{name}-1", profile=None, microStepsPerSecond=rate)
        for name, rate in rates.items()
    ]
    put_report(api, node, measurements=found)


def start_jobs(operator: Operator, node: str, *names: str) -> None:
    """Create GPUJobs whose pods run on a node."""
    api = operator.api
    for name in names:
        api.create("gpujobs", gpu_job(name))
        child = operator.wait_child(name)
        api.create("pods", job_pod(child, f"{name}-1", phase="Running"))
        api.change("pods", f"{name}-1", lambda pod: bind(pod, node, GPUS))
        operator.wait_phase(name, "Running")


def wait_rate(operator: Operator, name: str, text: str) -> None:
    def shown() -> bool:
        status = (operator.api.get("gpujobs", name) or {})["status"]
        return bool(status.get("throughput", {}).get("stepsPerSecond") == text)

    eventually(f"{name} at {text}", shown)


def test_rate_is_in_the_status_and_a_metric_and_a_restart_writes_nothing(
    own_operator: Operator,
) -> None:
    start_jobs(own_operator, "n1", "train")
    put_rates(own_operator.api, "n1", train=12_400_000)
    wait_rate(own_operator, "train", "12.4 ±0.3")
    own_operator.wait_until_idle()
    with urllib.request.urlopen(own_operator.metrics_url) as response:  # noqa: S310 - our own
        served = response.read().decode()
    assert 'gputopo_job_steps_per_second{name="train",namespace="default"} 12.4' in served
    own_operator.kill()
    own_operator.api.requests.clear()
    writes = len(own_operator.api.writes)
    own_operator.start()
    eventually("the start", lambda: own_operator.api.count("GET", "/gpujobs/train$"))
    own_operator.wait_until_idle()
    assert len(own_operator.api.writes) == writes


def test_new_rates_cause_requests_only_for_the_job_whose_rate_differs_clearly(
    operator: Operator,
) -> None:
    api = operator.api
    start_jobs(operator, "rated", "fast", "even")
    put_rates(api, "rated", fast=12_400_000, even=5_000_000)
    wait_rate(operator, "fast", "12.4 ±0.3")
    wait_rate(operator, "even", "5.0 ±0.1")
    operator.wait_until_idle()
    fast, even = (api.count("GET", f"/gpujobs/{name}$") for name in ("fast", "even"))
    for rate in (12_300_000, 12_500_000, 12_450_000):
        put_rates(api, "rated", fast=rate, even=5_000_000 + rate // 100)
    operator.wait_until_idle()
    assert api.count("GET", "/gpujobs/fast$") == fast
    put_rates(api, "rated", fast=14_000_000, even=5_010_000)
    wait_rate(operator, "fast", "14.0 ±0.3")
    operator.wait_until_idle()
    assert api.count("GET", "/gpujobs/even$") == even


def test_five_hundred_workloads_of_one_restart_need_few_requests(own_operator: Operator) -> None:
    api = own_operator.api
    names = [f"workload-{number:03}" for number in range(500)]
    own_operator.kill()
    for name in names:
        api.create("gpuprofiles", gpu_profile(name))
    for node in range(100):
        own = names[node * 5 : node * 5 + 5]
        put_report(api, f"n{node}", samples=[node_sample(profile=name) for name in own])
    api.requests.clear()
    own_operator.start()
    eventually("all samples", lambda: all(sampled(api, name) == ["u0"] for name in names))
    own_operator.wait_until_idle()
    # The first write of a new GPUProfile may come before its samples are known. Each write causes
    # an event, after which the GPUProfile is read once more.
    assert profile_writes(api) <= 1_000
    assert api.count("GET", "/gpuprofiles/workload-") <= 2_000
