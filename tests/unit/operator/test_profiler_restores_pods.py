"""A measured pod always gets its own CPUs back; with a fake API server."""

import pytest

from gputopo.api.profiling import CpuAmounts
from gputopo.profiling.finish import POLL_SECONDS, RETRY_SECONDS
from gputopo_kube.errors import ApiError
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.profiler import Profiler
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from support.api.faults import CLOSED, Fault, Hook
from support.api.server import ApiServer
from support.operator.profilers import KEY, RESIZE, profiler_of, reasons
from support.profiling.cluster import NAME, NODE, PROFILE, MeasuredCluster


@pytest.fixture
def cluster(api: ApiServer) -> MeasuredCluster:
    return MeasuredCluster(api)


@pytest.fixture
def profiler(connection: SyncApi, cluster: MeasuredCluster) -> Profiler:
    return profiler_of(connection, cluster)


def test_own_cpus_are_written_before_they_change(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    cluster.api.faults.append(Fault("PATCH", RESIZE, 500))
    with pytest.raises(ApiError):
        profiler.advance(KEY)
    state = cluster.state()
    assert state is not None
    assert state.original.limit == 4000
    assert cluster.is_active()
    assert profiler.advance(KEY) == POLL_SECONDS
    assert cluster.cpu() == ("8000m", "8000m")


@pytest.mark.parametrize("number", range(14))
def test_operator_that_is_killed_after_any_write_restores_the_pod(
    cluster: MeasuredCluster, connection: SyncApi, number: int
) -> None:
    """The write is carried out, but its operator ends; a new operator continues."""
    profiler = profiler_of(connection, cluster)
    killed, seen = False, 0
    for _ in range(60):
        before = len(cluster.api.writes)
        if not killed and number in {seen, seen + 1}:
            path = "/pods/train-1/status" if number == seen else RESIZE
            cluster.api.faults = [Fault("PATCH", path, CLOSED, carried_out="yes")]
        try:
            profiler.advance(KEY)
        except ApiError:
            killed = True
            profiler = profiler_of(connection, cluster)
        cluster.api.faults = []
        seen += len([w for w in cluster.api.writes[before:] if "/pods/" in w.path])
        state = cluster.state()
        if state is not None and state.restored:
            break
        cluster.measure()
    assert killed or number >= seen
    assert cluster.cpu() == ("4000m", "4000m")
    assert not cluster.is_active()
    assert reasons(cluster).count("ProfilingStarted") <= 1


def test_restore_that_the_api_server_rejects_is_tried_again_and_reported_once(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    profiler.advance(KEY)
    cluster.annotate(profiling=None)
    cluster.api.faults.append(Fault("PATCH", RESIZE, 403, "denied", times=None))
    assert profiler.advance(KEY) == RETRY_SECONDS
    assert profiler.advance(KEY) == RETRY_SECONDS
    warnings = [note for reason, note in cluster.events() if reason == "ProfilingFailed"]
    assert len(warnings) == 1
    assert "does not yet have its own 4000m CPU back" in warnings[0]
    cluster.api.faults = []
    assert profiler.advance(KEY) == POLL_SECONDS
    assert profiler.advance(KEY) is None
    assert cluster.cpu() == ("4000m", "4000m")


def test_request_that_is_removed_or_pod_that_is_deleted_restores_the_pod(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    profiler.advance(KEY)
    cluster.change(metadata={"deletionTimestamp": "2026-01-01T01:00:00Z"})
    profiler.advance(KEY)
    assert cluster.cpu() == ("4000m", "4000m")


def test_deleted_profile_restores_the_pod(cluster: MeasuredCluster, profiler: Profiler) -> None:
    cluster.measure()
    profiler.advance(KEY)
    cluster.api.delete("gpuprofiles", PROFILE)
    profiler.advance(KEY)
    assert cluster.cpu() == ("4000m", "4000m")
    profiler.advance(KEY)
    assert "the GPUProfile was deleted" in cluster.events()[-1][1]


@pytest.mark.parametrize(
    ("collection", "name"), [("gputopologies", NODE), ("gpuprofiles", PROFILE)]
)
def test_samples_in_an_unknown_format_do_not_prevent_the_restore(
    cluster: MeasuredCluster, profiler: Profiler, collection: str, name: str
) -> None:
    cluster.measure()
    profiler.advance(KEY)
    unknown = {"samples": [{"source": "Counters"}]}
    cluster.api.change(collection, name, lambda found: found.update(status=unknown))
    cluster.annotate(profiling=None)
    profiler.advance(KEY)
    assert cluster.cpu() == ("4000m", "4000m")


@pytest.mark.parametrize("cpu", ["8000m", "2000m"])
def test_restore_does_not_depend_on_other_objects(
    cluster: MeasuredCluster, profiler: Profiler, cpu: str
) -> None:
    cluster.measure()
    profiler.advance(KEY)
    while cluster.cpu()[0] != cpu:
        cluster.measure()
        profiler.advance(KEY)
    cluster.annotate(profiling=None)
    cluster.api.faults.append(Fault("PATCH", RESIZE, 403, "denied"))
    assert profiler.advance(KEY) == RETRY_SECONDS
    for kind in ("gpuprofiles", "gputopologies", "nodes", "api/v1/pods"):
        cluster.api.faults.append(Fault("GET", kind, 500, "no answer", times=None))
    profiler.advance(KEY)
    assert cluster.cpu() == ("4000m", "4000m")


def test_pod_that_ends_or_disappears_is_left_alone(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    profiler.advance(KEY)
    cluster.change(status={"phase": "Failed"})
    profiler.advance(KEY)
    assert not cluster.is_active()
    assert cluster.cpu() == ("8000m", "8000m")
    cluster.api.delete("pods", NAME)
    assert profiler.advance(KEY) is None


def test_pod_that_is_deleted_while_its_state_is_written_is_forgotten(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    cluster.api.hooks.append(
        Hook("PATCH", "/pods/train-1/status", lambda: cluster.api.delete("pods", NAME))
    )
    assert profiler.advance(KEY) == CONFLICT_DELAY_SECONDS
    assert profiler.advance(KEY) is None


def test_removed_state_of_an_active_pod_ends_the_measurement(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    profiler.advance(KEY)
    cluster.annotate(profiling_state=None)
    profiler.advance(KEY)
    assert "the annotation with the pod's own CPUs was removed" in cluster.events()[-1][1]
    assert not cluster.is_active()


def forge(cluster: MeasuredCluster, milli_cpu: int) -> None:
    """Write an annotation that claims that the pod had these CPUs."""
    state = cluster.state()
    assert state is not None
    original = CpuAmounts(request=milli_cpu, limit=milli_cpu)
    ended = {"original": original, "result": "Done", "message": "the curve is complete"}
    cluster.annotate(profiling_state=state.model_copy(update=ended).dump())


def test_pod_gets_no_cpus_back_that_it_never_had_and_that_other_pods_have(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    while cluster.cpu()[0] != "2000m":
        profiler.advance(KEY)
        cluster.measure()
    forge(cluster, 64_000)
    assert profiler.advance(KEY) == RETRY_SECONDS
    assert cluster.cpu() == ("2000m", "2000m")
    assert "no sample of the pod shows that it had these CPUs" in cluster.events()[-1][1]
    cluster.api.faults.append(Fault("GET", "nodes", 403, "forbidden", times=None))
    forge(cluster, 4000)  # a sample of the agent shows these
    profiler.advance(KEY)
    assert cluster.cpu() == ("4000m", "4000m")


def test_pod_without_samples_gets_free_cpus_back(
    cluster: MeasuredCluster, profiler: Profiler
) -> None:
    cluster.measure()
    while cluster.cpu()[0] != "2000m":
        profiler.advance(KEY)
        cluster.measure()
    cluster.api.change("gputopologies", NODE, lambda found: found["status"].clear())
    forge(cluster, 3000)
    profiler.advance(KEY)
    assert cluster.cpu() == ("3000m", "3000m")
