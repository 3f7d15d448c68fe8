"""The operator resizes a measured pod step by step; with a fake API server."""

import asyncio
import copy
from typing import Any

import pytest

from gputopo.api.names import TUNED_LABEL
from gputopo.profiling.finish import POLL_SECONDS, RETRY_SECONDS
from gputopo_kube.errors import ApiError
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.profiler import Profiler
from gputopo_operator.controller.profiling_api import ProfilingApi
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.parse.profiling import (
    available_milli_cpu,
)
from support.api.faults import Fault, Hook
from support.api.server import ApiServer
from support.operator.profilers import KEY, RESIZE, profiler_of, reasons, run
from support.profiling.cluster import NODE, PROFILE, MeasuredCluster
from support.tuning.api_cluster import node_object


@pytest.fixture
def cluster(api: ApiServer) -> MeasuredCluster:
    return MeasuredCluster(api)


@pytest.fixture
def profiler(connection: SyncApi, cluster: MeasuredCluster) -> Profiler:
    return profiler_of(connection, cluster)


def test_pod_is_measured_and_gets_its_own_cpus_back(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    assert run(profiler, cluster) == ["8000m", "2000m", "3000m", "2500m", "500m", "4000m"]
    assert cluster.cpu() == ("4000m", "4000m")
    assert not cluster.is_active()
    assert reasons(cluster) == [
        "ProfilingStarted",
        *["ProfilingStep"] * 4,
        "ProfilingDone",
    ]
    notes = dict(cluster.events())
    assert "its own 4000m CPU back; first limit: 8000m CPU" in notes["ProfilingStarted"]
    assert "cost 4000 training steps" in notes["ProfilingDone"]
    writes = len(cluster.api.writes)
    assert profiler.advance(KEY) is None
    assert len(cluster.api.writes) == writes


def test_two_operators_take_each_step_once(cluster: MeasuredCluster, connection: SyncApi) -> None:
    first, second = (profiler_of(connection, cluster) for _ in range(2))
    cluster.measure()

    async def act() -> None:
        await asyncio.to_thread(second.advance, KEY)

    cluster.api.hooks.append(Hook("PATCH", "/pods/train-1/status", act))
    assert first.advance(KEY) == CONFLICT_DELAY_SECONDS
    assert first.advance(KEY) is not None
    assert [write.path for write in cluster.api.writes if write.path.endswith("resize")] == [
        "/api/v1/namespaces/default" + RESIZE
    ]
    assert reasons(cluster) == ["ProfilingStarted"]


def test_resize_that_the_api_server_rejects_is_not_repeated(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    cluster.api.faults.append(Fault("PATCH", RESIZE, 403, "exceeded quota: cpus"))
    assert profiler.advance(KEY) == POLL_SECONDS
    assert cluster.cpu()[1] == "2000m"
    assert "8000m" not in run(profiler, cluster)


def test_api_server_without_resize_ends_the_measurement(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    cluster.api.faults.append(Fault("PATCH", RESIZE, 404, "the server has no resize", times=None))
    assert profiler.advance(KEY) is None
    [*_, (reason, note)] = cluster.events()
    assert reason == "ProfilingFailed"
    assert note.startswith("NotPossible: ")
    assert "the server has no resize; to resize a running pod, use Kubernetes 1.33" in note
    assert not cluster.is_active()


INFEASIBLE: dict[str, Any] = {
    "type": "PodResizePending",
    "status": "True",
    "reason": "Infeasible",
    "message": "static",
}


def test_problem_that_kubelet_reports_is_used(cluster: MeasuredCluster, profiler: Profiler) -> None:
    cluster.measure()
    profiler.advance(KEY)
    condition = INFEASIBLE
    cluster.change(status={"conditions": [condition]})
    profiler.advance(KEY)
    assert cluster.cpu()[1] == "2000m"
    cluster.change(status={"conditions": [condition]})
    profiler.advance(KEY)
    assert profiler.advance(KEY) == RETRY_SECONDS
    cluster.change(status={"conditions": [{**condition, "status": "False"}]})
    assert profiler.advance(KEY) is None
    assert cluster.events()[-1][0] == "ProfilingFailed"
    assert cluster.cpu() == ("4000m", "4000m")


def test_problem_of_an_earlier_resize_does_not_end_the_measurement(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    profiler.advance(KEY)
    resized = cluster.cpu()
    earlier = {**INFEASIBLE, "observedGeneration": 1}
    cluster.change(status={"conditions": [earlier]}, metadata={"generation": 2})
    profiler.advance(KEY)
    assert cluster.cpu() == resized


def test_resize_is_applied_when_kubelet_reports_it(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    status = {"name": "main", "resources": {"limits": {"cpu": "4"}}}
    cluster.change(status={"containerStatuses": [status]})
    cluster.measure()
    profiler.advance(KEY)
    assert profiler.advance(KEY) == POLL_SECONDS
    status["resources"] = {"limits": {"cpu": "8"}}
    cluster.change(status={"containerStatuses": [status]})
    later = profiler.advance(KEY)
    assert later is not None
    assert later > POLL_SECONDS


@pytest.mark.parametrize(
    ("annotations", "first"),
    [
        ({"resources_mode": "Auto"}, "8000m"),
        ({"resources_mode": "Auto", "resources_max": "cpu=6"}, "6000m"),
        ({"resources_mode": "Fixed"}, "2000m"),
        ({"resources_mode": "Fixed", "resources_max": "cpu=6"}, "2000m"),
    ],
)
def test_pod_that_is_sized_is_measured_above_its_floor(
    api: ApiServer, connection: SyncApi, annotations: dict[str, str], first: str
) -> None:
    cluster = MeasuredCluster(api, cpu="1")
    api.put("nodes", node_object(gpus=2))
    cluster.annotate(**annotations)
    cluster.change(metadata={"labels": {TUNED_LABEL: "true"}})
    cluster.measure()
    profiler_of(connection, cluster).advance(KEY)
    assert cluster.cpu() == (first, first)


def test_share_of_another_measured_pod_is_left_to_it(api: ApiServer, connection: SyncApi) -> None:
    cluster = MeasuredCluster(api, cpu="1")
    api.put("nodes", node_object(gpus=4))
    cluster.annotate(resources_mode="Auto", resources_max="cpu=64")
    cluster.change(metadata={"labels": {TUNED_LABEL: "true"}})
    other = copy.deepcopy(cluster.pod)
    other["metadata"] |= {"name": "other", "uid": "uid-other"}
    api.create("pods", other)
    cluster.measure()
    profiler_of(connection, cluster).advance(KEY)
    assert cluster.cpu() == ("6000m", "6000m")


def test_node_that_does_not_exist_has_no_cpus_to_measure(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.api.delete("nodes", NODE)
    cluster.measure()
    profiler.advance(KEY)
    assert cluster.cpu() == ("2000m", "2000m")


def test_pending_pods_are_listed_only_if_the_cpu_request_may_be_lowered(
    api: ApiServer, connection: SyncApi
) -> None:
    cluster = MeasuredCluster(api, request="1")
    api.faults.append(Fault("GET", "status.phase", 500, "no answer", times=None))
    cluster.measure()
    profiler_of(connection, cluster).advance(KEY)
    assert cluster.cpu() == ("1000m", "8000m")


def test_samples_that_the_agent_no_longer_reports_come_from_the_profile(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    topology = cluster.api.get("gputopologies", NODE)
    assert topology is not None
    samples = topology["status"]["samples"]
    cluster.api.change("gputopologies", NODE, lambda found: found.update(status={}))
    cluster.api.change(
        "gpuprofiles", PROFILE, lambda found: found.update(status={"samples": samples})
    )
    assert profiler.advance(KEY) == POLL_SECONDS


def test_operator_without_rights_on_nodes_measures_up_to_the_own_limit(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.annotate()
    cluster.measure()
    cluster.api.faults.append(Fault("GET", "/nodes/n1", 403, "forbidden", times=None))
    profiler.advance(KEY)
    [(reason, note)] = cluster.events()
    assert reason == "ProfilingDone"
    assert note.startswith("CPUsNeeded")
    assert cluster.cpu() == ("4", "4")


def test_failing_request_is_an_error_and_changes_nothing(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    writes = len(cluster.api.writes)
    cluster.api.faults.append(Fault("GET", "/nodes/n1", 500))
    with pytest.raises(ApiError):
        profiler.advance(KEY)
    assert len(cluster.api.writes) == writes


def test_rejected_event_is_logged(
    cluster: MeasuredCluster, profiler: Profiler, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.measure()
    cluster.api.faults.append(Fault("POST", "/events", 403, "denied"))
    assert profiler.advance(KEY) == POLL_SECONDS
    assert "event not created event=ProfilingStarted" in caplog.text


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"profile": None}, "the pod has no annotation gputopo.io/profile"),
        ({"profiling_state": "{"}, "gputopo.io/profiling-state: "),
    ],
)
def test_pod_that_cannot_be_measured_gets_one_event(
    cluster: MeasuredCluster,
    profiler: Profiler,
    annotations: dict[str, Any],
    expected: str,
) -> None:
    cluster.annotate(**annotations)
    assert profiler.advance(KEY) is None
    assert profiler.advance(KEY) is None
    [(reason, note)] = cluster.events()
    assert reason == "ProfilingFailed"
    assert expected in note


@pytest.mark.parametrize("annotations", [{"profiling": None}, {"profiling": "Links"}])
def test_pod_that_requests_no_cpus_is_not_written(
    cluster: MeasuredCluster, profiler: Profiler, annotations: dict[str, Any]
) -> None:
    cluster.annotate(**annotations)
    cluster.measure()
    writes = len(cluster.api.writes)
    assert profiler.advance(KEY) is None
    assert len(cluster.api.writes) == writes


def test_invalid_pod_is_logged(
    cluster: MeasuredCluster, profiler: Profiler, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.change(spec={"containers": "none"})
    assert profiler.advance(KEY) is None
    assert "pod not measured pod=default/train-1" in caplog.text


def test_own_cpus_of_another_measured_pod_are_not_available(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    while cluster.cpu()[0] != "2000m":
        profiler.advance(KEY)
        cluster.measure()
    node = {"status": {"allocatable": {"cpu": "16"}}}
    assert available_milli_cpu(node, [cluster.pod], "uid-own", "main") == 16_000 - 4000
    cluster.annotate(profiling_state="{}")
    assert available_milli_cpu(node, [cluster.pod], "uid-own", "main") == 16_000 - 2000


def test_pods_with_the_label_are_listed(
    cluster: MeasuredCluster, connection: SyncApi, profiler: Profiler
) -> None:
    listed = ProfilingApi(connection)
    assert listed.active_pods(None) == []
    cluster.measure()
    profiler.advance(KEY)
    assert listed.active_pods(None) == [KEY]
    assert listed.active_pods("default") == [KEY]
    assert listed.active_pods("other") == []
