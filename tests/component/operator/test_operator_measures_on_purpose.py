"""Operator processes that are killed, or of which two run, measure pods and links once."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.api.server import ApiServer, serving_in_thread
from support.builders.gpujobs import gpu_job
from support.operator.process import Operator, eventually
from support.profiling.cluster import NODE, PROFILE, MeasuredCluster
from support.profiling.pods import saturating

LINKS = {"measure": ["Links"]}


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with serving_in_thread(ApiServer()) as server:
        yield server


def started(api: ApiServer, folder: Path, name: str = "first") -> Operator:
    (folder / name).mkdir()
    operator = Operator(api, folder / name, resync_seconds=1.0)
    operator.start()
    return operator


def measured(api: ApiServer) -> MeasuredCluster:
    cluster = MeasuredCluster(api)
    cluster.now = datetime.now(UTC)
    cluster.request()
    cluster.measure(0)
    return cluster


def run_to_end(cluster: MeasuredCluster) -> None:
    """Let the agent take a sample after each resize, until the pod has its own CPUs back."""

    def has_ended() -> bool:
        state = cluster.state()
        if state is not None and state.restored:
            return True
        limit = int(cluster.cpu()[1].removesuffix("m"))
        if state is not None and all(point.milli_cpu != limit for point in state.points):
            assert saturating(limit) > 0
            cluster.measure(1)
        return False

    eventually("the pod has its own CPUs back", has_ended)


def test_pod_of_a_killed_operator_gets_its_cpus_back_without_agent_and_profile(
    api: ApiServer, tmp_path: Path
) -> None:
    first = started(api, tmp_path)
    cluster = measured(api)
    eventually("the pod is resized", lambda: cluster.cpu()[1] == "8000m")
    first.kill()
    api.delete("gputopologies", NODE)
    api.delete("gpuprofiles", PROFILE)
    second = started(api, tmp_path, "second")
    eventually("the pod has its own CPUs back", lambda: cluster.cpu() == ("4000m", "4000m"))
    eventually("the label is removed", lambda: not cluster.is_active())
    assert second.stop() == 0


def test_two_operators_measure_a_pod_once(api: ApiServer, tmp_path: Path) -> None:
    operators = [started(api, tmp_path, name) for name in ("first", "second")]
    for operator in operators:
        operator.wait_ready()
    cluster = measured(api)
    run_to_end(cluster)
    assert [operator.stop() for operator in operators] == [0, 0]
    resizes = [
        write.body["spec"]["containers"][0]["resources"]["limits"]["cpu"]
        for write in api.writes
        if write.path.endswith("/resize")
    ]
    assert resizes == ["8000m", "2000m", "3000m", "2500m", "500m", "4000m"]
    reasons = [reason for reason, _ in cluster.events()]
    assert reasons.count("ProfilingStarted") == reasons.count("ProfilingDone") == 1


def test_job_starts_after_its_short_run_reached_the_time_limit(
    api: ApiServer, tmp_path: Path
) -> None:
    operator = started(api, tmp_path)
    job = gpu_job("train", workload={"profile": "resnet50"}, profiling=LINKS)
    api.create("gpujobs", job)
    operator.wait_child("train")  # objects of the fake API server are months old
    operator.wait_condition("train", "Profiled", "TimeLimit")
    assert operator.wait_child("train-links-best")["spec"]["suspend"] is True
    assert api.get("jobs", "train-links-worst") is None
    operator.wait_event("train", "LinkRunEnded")
    assert operator.stop() == 0
