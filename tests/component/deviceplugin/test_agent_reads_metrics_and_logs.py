"""Steps from Prometheus endpoints and from logs of containers, in virtual time."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.names import STEPS_METRICS_ANNOTATION, STEPS_SOURCE_ANNOTATION
from gputopo_deviceplugin.measure import log_reader
from gputopo_kube.endpoint import EndpointError
from support.agent.measured import MeasuredNode, in_virtual_time

URL = "http://10.0.0.7:9090/metrics"
METRICS = {STEPS_SOURCE_ANNOTATION: "Metrics", STEPS_METRICS_ANNOTATION: "9090/metrics steps_total"}
LOG = {STEPS_SOURCE_ANNOTATION: "Log"}


@pytest.fixture
def node(short_directory: Path) -> Iterator[MeasuredNode]:
    node = MeasuredNode(short_directory, pod_logs_dir=short_directory / "logs")
    yield node
    node.close()


def unreadable(node: MeasuredNode) -> float:
    return node.metric("gputopo_agent_dropped_steps_total", reason="Unreadable") or 0.0


async def count(node: MeasuredNode, rate: float, seconds: int) -> None:
    """Serve a counter that grows by ``rate`` per second."""
    for second in range(seconds):
        text = f"# TYPE steps_total counter\nsteps_total {rate * second}\nother 5\n"
        node.endpoints.texts[URL] = text.encode()
        await asyncio.sleep(1)


@in_virtual_time
async def test_a_counter_at_an_endpoint_gives_a_rate_and_samples(node: MeasuredNode) -> None:
    await node.run_pod("a", {"main": [0]}, annotations=METRICS)
    await count(node, 2.48, seconds=250)
    [measured] = node.measurements.values()
    assert (measured.state, measured.source) == ("Steady", "Metrics")
    sample, *_ = node.samples
    assert sample.source == "Metrics"
    assert sample.steps_per_second == pytest.approx(2.48, rel=0.02)
    assert set(node.endpoints.requests) == {URL}
    assert len(node.endpoints.requests) <= 250 / 5


@in_virtual_time
async def test_an_endpoint_that_fails_is_logged_once_for_each_reason(
    node: MeasuredNode, caplog: pytest.LogCaptureFixture
) -> None:
    await node.run_pod("a", {"main": [0]}, annotations=METRICS)
    await asyncio.sleep(31)
    node.endpoints.texts[URL] = b"steps_total NaN\n"
    await asyncio.sleep(30)
    node.endpoints.texts[URL] = b"steps_total 5\n"
    await asyncio.sleep(30)
    node.endpoints.texts[URL] = EndpointError("closed")
    await asyncio.sleep(30)
    assert unreadable(node) == 18
    logged = [text for text in caplog.messages if text.startswith("steps not read")]
    assert len(logged) == 3
    assert "pod=default/a container=main" in logged[0]
    assert "connection refused" in logged[0]
    assert node.measurements["a"].state == "WarmUp"


def start_container(node: MeasuredNode) -> None:
    """Let kubelet report that the container of the pod was started."""
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    running = {"name": "main", "state": state, "imageID": "example.org/train@sha256:1"}
    node.change("a", status={"containerStatuses": [running]})


@in_virtual_time
async def test_endpoint_that_fails_for_a_minute_is_an_event_once_for_each_reason(
    node: MeasuredNode,
) -> None:
    await node.run_pod("a", {"main": [0]}, annotations=METRICS)
    await asyncio.sleep(90)  # the image is pulled
    start_container(node)
    await asyncio.sleep(60)
    assert node.agent.recorder.invalid == []
    await asyncio.sleep(90)
    [closed] = node.agent.recorder.invalid
    assert closed == (
        "gputopo.io/steps-metrics: '9090/metrics steps_total', but no steps were read for 60 s: "
        f"{URL}: connection refused; correct the annotation or the program, and permit requests "
        "from the node to this port; or use SDK or Log"
    )
    node.endpoints.texts[URL] = b"steps_total 5\n"
    await asyncio.sleep(30)
    for value in range(1, 200):  # a program that affects the text causes three events at most
        node.endpoints.texts[URL] = b"steps_total -%d\n" % value
        await asyncio.sleep(1)
    assert len(node.agent.recorder.invalid) == 3
    assert "must be a number" in node.agent.recorder.invalid[1]


@in_virtual_time
async def test_a_pod_without_an_address_is_not_read(node: MeasuredNode) -> None:
    await node.run_pod("a", {"main": [0]}, annotations=METRICS)
    node.change("a", status={"podIP": None})
    await asyncio.sleep(30)
    assert node.endpoints.requests == []
    assert unreadable(node) == 0


@in_virtual_time
async def test_a_pod_with_an_address_of_another_service_is_not_read(node: MeasuredNode) -> None:
    await node.run_pod("a", {"main": [0]}, annotations=METRICS)
    node.change("a", status={"podIP": "169.254.169.254"})
    await asyncio.sleep(30)
    assert node.endpoints.requests == []
    assert unreadable(node) > 0


@in_virtual_time
async def test_a_pod_that_ends_during_a_request_changes_nothing(node: MeasuredNode) -> None:
    await node.run_pod("a", {"main": [0]}, annotations=METRICS)
    node.endpoints.texts[URL] = b"steps_total 5\n"
    node.endpoints.delay_seconds = 2.0
    await asyncio.sleep(5)
    await node.end_pod("a")
    await asyncio.sleep(30)
    assert node.measurements == {}


async def call_at_once(function: Callable[[], Any], name: str) -> Any:
    """Call a function without a thread, because virtual time does not wait for threads."""
    assert name == "logs"
    return function()


@in_virtual_time
async def test_lines_of_a_log_give_a_rate_and_samples(
    node: MeasuredNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "call_in_daemon_thread", call_at_once)
    log = node.settings.state_dir / "logs/default_a_uid-a/main/0.log"
    log.parent.mkdir(parents=True)
    await node.run_pod("a", {"main": [0]}, annotations=LOG)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for second in range(250):
        time = start + timedelta(seconds=asyncio.get_running_loop().time())
        with log.open("a") as file:
            text = f"step time 0.1 s: gputopo-steps {second * 10}"
            file.write(f"{time.isoformat()} stdout F {text}\n")
        await asyncio.sleep(1)
    [measured] = node.measurements.values()
    assert (measured.state, measured.source) == ("Steady", "Log")
    sample, *_ = node.samples
    assert sample.source == "Log"
    assert sample.steps_per_second == pytest.approx(10, rel=0.02)


@in_virtual_time
async def test_log_that_cannot_be_read_is_logged_counted_and_an_event(
    node: MeasuredNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_reader, "call_in_daemon_thread", call_at_once)
    folder = node.settings.state_dir / "logs/default_a_uid-a/main"
    await node.run_pod("a", {"main": [0]}, annotations=LOG)
    await asyncio.sleep(90)
    assert unreadable(node) == 0
    folder.mkdir(parents=True)
    (folder / "0.log").symlink_to(folder / "elsewhere")
    start_container(node)
    await asyncio.sleep(50)
    assert unreadable(node) >= 40
    assert node.agent.recorder.invalid == []
    await asyncio.sleep(150)
    [reason] = node.agent.recorder.invalid
    assert reason == (
        "gputopo.io/steps-source: Log, but the log was not readable for 60 s: "
        f"{folder}/0.log: is a symbolic link; the source Log needs a container runtime that writes "
        "logs below /var/log/pods, for example containerd; or use SDK or Metrics"
    )
    assert len([text for text in caplog.messages if text.startswith("steps not read")]) == 1
