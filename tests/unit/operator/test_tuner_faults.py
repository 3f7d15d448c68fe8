"""The operator sizes the pods of a node although requests, pods and processes fail."""

import asyncio
import re
from contextlib import suppress

import pytest

from gputopo_kube.errors import ApiError, DeniedError
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from support.api.faults import Fault, Hook
from support.api.server import ApiServer
from support.tuning.api_cluster import NODE, SizedCluster, sized_container
from support.tuning.operator import OperatorUnderTest

IMPOSSIBLE = '"since":"2026-99-99T99:99:99Z"'


@pytest.fixture
def cluster(api: ApiServer) -> SizedCluster:
    return SizedCluster(api)


@pytest.fixture
def operator(connection: SyncApi, cluster: SizedCluster) -> OperatorUnderTest:
    return OperatorUnderTest(connection, cluster)


@pytest.mark.parametrize("number", range(16))
def test_operator_that_is_killed_after_any_write_converges(
    cluster: SizedCluster, connection: SyncApi, number: int
) -> None:
    """The write is carried out, but its operator ends; a new operator continues."""
    for name, profile in (("a", "linear"), ("b", "flat"), ("c", "linear")):
        cluster.add(name, profile=profile)
    start = len(cluster.api.writes)
    operator, killed = OperatorUnderTest(connection, cluster), False
    for _ in range(16):
        left = number - (len(cluster.api.writes) - start)
        if not killed and left >= 0:
            hooks = [Hook("PATCH|POST", "pods/|events", lambda: None)] * left
            cluster.api.hooks = [*hooks, Hook("PATCH|POST", "pods/|events", cluster.break_next)]
        with suppress(ApiError):  # an Event that was not created is only logged
            operator.advance()
        if cluster.is_broken and not killed:
            killed, operator = True, OperatorUnderTest(connection, cluster)
        cluster.api.hooks, cluster.api.faults = [], []
        cluster.run_kubelet()
        cluster.wait(5)
    assert killed or number >= len(cluster.api.writes) - start
    assert cluster.cpus == {"a": 5000, "b": 1000, "c": 2000}
    assert cluster.total() <= 8000
    records = [cluster.record(name) for name in cluster.cpus]
    assert all(record is None or record.done for record in records)


def test_two_operators_resize_each_pod_once(cluster: SizedCluster, connection: SyncApi) -> None:
    first, second = (OperatorUnderTest(connection, cluster) for _ in range(2))
    for name in ("a", "b"):
        cluster.add(name, profile="linear")

    async def act() -> None:
        await asyncio.to_thread(second.advance)

    cluster.api.hooks.append(Hook("PATCH", "/pods/a/status", act))
    assert first.advance() == CONFLICT_DELAY_SECONDS
    first.run()
    second.run()
    assert cluster.resizes == [("a", "6000m"), ("b", "2000m")]
    assert [reason for reason, _ in cluster.events("a")] == ["Resized"]


def test_resize_that_the_api_server_rejects_is_reported_and_not_repeated_at_once(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("a", profile="linear")
    cluster.add("b", profile="flat")
    cluster.api.faults.append(Fault("PATCH", "/pods/a/resize", 403, "exceeded quota: cpus"))
    operator.advance()
    operator.advance()
    assert cluster.cpus["a"] == 1000
    assert operator.metric("gputopo_operator_resizes_total", result="ResizeRejected") == 1
    [(reason, note)] = cluster.events("a")
    assert reason == "ResizeRejected"
    assert "exceeded quota: cpus" in note


def test_resizes_wait_while_the_api_server_rejects_all_of_them(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    for name in ("a", "b", "c", "d"):
        cluster.add(name, profile="linear")
    cluster.api.faults.append(
        Fault("PATCH", "/resize", 404, "the server could not find", times=None)
    )
    for _ in range(5):
        operator.advance()
        cluster.wait(1)
    assert set(cluster.cpus.values()) == {1000}
    assert "use Kubernetes 1.33 or newer" in cluster.events("a")[0][1]
    requests = len(cluster.api.requests)
    operator.advance()
    assert not [write for write in cluster.api.requests[requests:] if write[0] == "PATCH"]


def test_repeated_rejections_end_the_call(
    cluster: SizedCluster, operator: OperatorUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add("a", profile="linear")
    cluster.api.faults.append(Fault("PATCH", "/resize", 403, "denied", times=None))
    monkeypatch.setattr("gputopo_operator.controller.tuner._MOST_DECISIONS", 1)
    assert operator.advance() == CONFLICT_DELAY_SECONDS


def test_failed_request_is_an_error_and_the_next_call_continues(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("a", profile="linear")
    cluster.api.faults.append(Fault("PATCH", "/pods/a/resize", 500))
    with pytest.raises(ApiError):
        operator.advance()
    operator.run()
    assert cluster.cpus == {"a": 8000}


def test_pod_that_another_client_has_resized_keeps_its_amounts(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("a", profile="linear")
    operator.run()
    cluster.set_cpu("a", "3")
    operator.run()
    operator.run()
    assert cluster.cpus == {"a": 3000}
    assert [reason for reason, _ in cluster.events("a")] == ["Resized", "ResizedByOther"]


@pytest.mark.parametrize("damage", [(r"^.*$", "{"), (r'"since":"[^"]*"', IMPOSSIBLE)])
def test_record_that_cannot_be_parsed_is_replaced_once_and_the_pod_is_sized_again(
    cluster: SizedCluster, operator: OperatorUnderTest, damage: tuple[str, str]
) -> None:
    cluster.add("a", profile="linear")
    cluster.add("b", profile="linear")
    operator.run()
    before = cluster.cpus["a"]
    record = cluster.record("a")
    assert record is not None
    cluster.annotate("a", resources=re.sub(*damage, record.dump()))
    operator.run()
    operator.run()
    [(_, note)] = [each for each in cluster.events("a") if each[0] == "RecordReplaced"]
    assert note.startswith("gputopo.io/resources: ")
    assert f"the floor of the pod, {before}m CPU" in note
    cluster.api.delete("pods", "b")
    operator.run()
    assert cluster.cpus == {"a": 8000}
    record = cluster.record("a")
    assert record is not None
    assert record.floor.milli_cpu == before


def test_profile_in_an_unknown_format_is_treated_as_missing(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("a", profile="linear")
    cluster.add("b", profile="none")
    cluster.api.change("gpuprofiles", "linear", lambda it: it["status"]["facts"].update(cpus="x"))
    cluster.api.change("gpuprofiles", "linear", lambda it: it["spec"].update(dataset="x"))
    operator.run()
    assert cluster.cpus == {"a": 2000, "b": 2000}


@pytest.mark.parametrize("name", ["x/status", ".."])
def test_name_that_no_profile_can_have_is_not_requested_and_the_pod_gets_its_share(
    cluster: SizedCluster, operator: OperatorUnderTest, name: str
) -> None:
    cluster.add("a", profile=name)
    cluster.add("b", profile="linear")
    operator.run()
    operator.run()
    assert cluster.cpus == {"a": 2000, "b": 6000}
    assert not cluster.api.count("GET", "/gpuprofiles/(?!linear)")
    events = [note for reason, note in cluster.events("a") if reason == "ProfileIgnored"]
    text = f"gputopo.io/profile: '{name}' is not the name of a GPUProfile; use lower case"
    assert [note.startswith(f"sized without facts: {text}") for note in events] == [True]


def test_profile_that_may_not_be_read_is_logged_and_treated_as_missing(
    cluster: SizedCluster, operator: OperatorUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add("a", profile="linear")
    cluster.add("b", profile="flat")
    cluster.api.faults.append(Fault("GET", "/gpuprofiles/flat", 403, "forbidden", times=None))
    operator.run()
    assert cluster.cpus == {"a": 6000, "b": 2000}
    assert "GPUProfile not read profile=default/flat" in caplog.text


@pytest.mark.parametrize("failing", ["/status", "/resize"])
def test_pod_that_changes_all_the_time_delays_no_other_pod(
    cluster: SizedCluster, operator: OperatorUnderTest, failing: str
) -> None:
    cluster.add("a", profile="linear")
    cluster.add("b", mode="Proportional")
    fault = Fault("PATCH", f"/pods/a{failing}", 409, "the object has been modified", times=None)
    cluster.api.faults.append(fault)
    assert operator.advance() == CONFLICT_DELAY_SECONDS
    assert [name for name, _ in cluster.resizes] == ["b"]
    assert operator.metric("gputopo_operator_sized_pods_cpus", node=NODE) is not None
    cluster.api.faults.clear()
    operator.run()
    assert cluster.cpus == {"a": 6000, "b": 2000}


def test_record_that_is_denied_is_an_error_after_the_other_pods_were_resized(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("a", profile="linear")
    cluster.add("b", mode="Proportional")
    cluster.api.faults.append(Fault("PATCH", "/pods/a/status", 422, "annotations are too long"))
    with pytest.raises(DeniedError):
        operator.advance()
    assert [name for name, _ in cluster.resizes] == ["b"]


def test_invalid_pod_is_reported_once_and_the_other_pods_of_the_node_are_sized(
    cluster: SizedCluster, operator: OperatorUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        cluster.add(name, profile="linear")
    cluster.add("of-another-client", container=sized_container(cpu="2"))
    cluster.change("of-another-client", metadata={"labels": {}}, spec={"affinity": "none"})
    cluster.change("b", spec={"affinity": "none"})
    operator.run()
    operator.run()
    assert cluster.cpus == {"a": 5000, "b": 1000}
    text = "pod spec.affinity: 'none': Input should be a valid dictionary"
    assert cluster.events("b") == [("NotSized", f"the pod keeps its resources: {text}")]
    assert not cluster.events("of-another-client")
    for name in ("b", "of-another-client"):
        assert caplog.text.count(f'pod not sized pod=default/{name} reason="{text}"') == 1


def test_node_with_one_sized_pod_that_is_invalid_is_read_again_in_the_next_round(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("a", profile="linear")
    cluster.change("a", spec={"containers": "none"})
    assert operator.advance() == 300.0
    assert [reason for reason, _ in cluster.events("a")] == ["NotSized"]


def test_rejected_event_is_logged(
    cluster: SizedCluster, operator: OperatorUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add("a", profile="linear")
    cluster.api.faults.append(Fault("POST", "/events", 403, "denied"))
    operator.run()
    assert cluster.cpus == {"a": 8000}
    assert "event not created event=Resized" in caplog.text
