"""The program of the operator: settings, credentials, and kopf's watches in this process."""

import asyncio
import logging
import os
import pkgutil
import runpy
import signal
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest

from gputopo.api.names import SHARING_IF_SLOW_ANNOTATION, TUNED_LABEL
from gputopo.api.shares import share_id
from gputopo_kube.credentials import connected
from gputopo_kube.sync import SyncApi
from gputopo_operator import __main__ as program
from gputopo_operator import controller
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.job_queue_passes import JobQueuePasses
from gputopo_operator.controller.parts import OperatorPart
from gputopo_operator.controller.sharing_queue import SharingQueue
from gputopo_operator.metrics import OperatorLoop, OperatorMetrics
from gputopo_operator.settings import OperatorSettings
from support.api.faults import Fault
from support.api.server import ApiServer
from support.builders.gpujobs import GPUS, bind, gpu_job, job_pod, observed_topology
from support.builders.node_reports import gpu_profile, node_sample, reporting
from support.builders.shares import sharing_pod, sharing_topology
from support.builders.sharing_facts import pairs
from support.builders.topologies import node as small_node
from support.operator.queue import node, plain_node
from support.operator.sharing import SharedGpuOfNode
from support.ports import free_port
from support.profiling.cluster import NODE, MeasuredCluster
from support.tuning.api_cluster import NODE as SIZED_NODE
from support.tuning.api_cluster import SizedCluster

LOOKS = 1000


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Port and address of each metrics server that the program starts."""
    servers: list[tuple[int, str]] = []
    monkeypatch.setattr(program, "configure", lambda *_, **__: None)
    monkeypatch.setattr(
        program, "start_http_server", lambda port, host, _: servers.append((port, host))
    )
    monkeypatch.setenv("POD_ID", "test")
    return servers


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", ["gputopo-operator", *arguments])
    program.main()


def test_program_runs_with_its_settings(
    api: ApiServer, started: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []

    async def operate(settings: OperatorSettings, api: SyncApi, _: OperatorMetrics) -> None:
        jobs = await asyncio.to_thread(JobApi(api).gpu_jobs, None)
        found.extend([settings.workers, len(jobs)])

    monkeypatch.setattr(program, "operate", operate)
    api.create("gpujobs", gpu_job("train"))
    run(monkeypatch, "--workers", "2", "--metrics-port", "9999", "--probes-host", "127.0.0.1")
    assert found == [2, 1]
    assert started == [(9999, "127.0.0.1")]


def test_watch_that_asyncio_cannot_close_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def watch() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            yield 2

    async def stop() -> None:
        asyncio.get_running_loop().set_exception_handler(program.report_loop_error)
        assert await anext(watching) == 1
        asyncio.get_running_loop().call_exception_handler({"message": "lost callback"})

    caplog.set_level(logging.DEBUG)
    watching = watch()
    asyncio.run(stop())
    found = [(each.levelname, each.getMessage().split(" ")[:2]) for each in caplog.records]
    assert ("ERROR", ["lost", "callback"]) in found
    assert ("DEBUG", ["watch", "closed"]) in found
    assert [level for level, _ in found].count("ERROR") == 1


def test_every_part_runs_and_those_that_the_installation_does_not_use_need_no_threads() -> None:
    for each in pkgutil.iter_modules(controller.__path__, f"{controller.__name__}."):
        import_module(each.name)
    assert {*OperatorPart.__subclasses__()} == {*program.PARTS}
    idle = {part for part in program.PARTS if not part.workers(OperatorSettings())}
    assert idle == {JobQueuePasses, SharingQueue}


@pytest.mark.usefixtures("started")
def test_program_ends_with_a_message_without_settings_or_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=r"gputopo-operator: .*--workers"):
        run(monkeypatch, "--workers", "0")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(SystemExit, match="gputopo-operator: kubeconfig: "):
        run(monkeypatch)


async def eventually(look: Callable[[], bool]) -> None:
    # Looks are counted, not seconds: a machine that is slow to look is also slow to act.
    for _ in range(LOOKS):
        if look():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not in {LOOKS} looks")


def phase(api: ApiServer, name: str = "train") -> str:
    return str((api.get("gpujobs", name) or {}).get("status", {}).get("phase"))


def placed(api: ApiServer) -> str:
    conditions = (api.get("gpujobs", "train") or {}).get("status", {}).get("conditions", [])
    return next((str(each["reason"]) for each in conditions if each["type"] == "Placed"), "")


async def test_operator_reconciles_after_events_and_after_the_resync(api: ApiServer) -> None:
    metrics = OperatorMetrics()
    settings = OperatorSettings(
        probes_host="127.0.0.1", health_port=free_port(), resync_seconds=1.0
    )
    with connected(5.0, "test") as connection:
        running = asyncio.create_task(program.operate(settings, connection, metrics))
        api.create("gpujobs", gpu_job("train"))
        await eventually(lambda: phase(api) == "Pending")
        child = api.get("jobs", "train")
        assert child is not None
        api.create("pods", job_pod(child, "train-1"))
        api.change("pods", "train-1", lambda pod: bind(pod, "n1", GPUS))
        await eventually(lambda: placed(api) == "Bound")
        used = {**dict.fromkeys(GPUS, "uid-train-1"), "GPU-0": "uid-other"}
        api.create("gputopologies", observed_topology("n1", used))
        await eventually(lambda: placed(api) == "Observed")
        api.faults.append(Fault("GET", r"/gpujobs\?limit", 500))
        api.mute = True
        api.create("gpujobs", gpu_job("unseen"))
        await eventually(lambda: phase(api, "unseen") == "Pending")
        os.kill(os.getpid(), signal.SIGTERM)  # kopf handles it
        await running


async def test_signal_ends_an_operator_that_cannot_read_the_nodes(api: ApiServer) -> None:
    settings = OperatorSettings(probes_host="127.0.0.1", health_port=free_port())
    api.faults.append(Fault("GET", r"/gputopologies\?limit", 500, times=None))
    api.create("gpujobs", gpu_job("train"))
    metrics = OperatorMetrics()
    labels = {"loop": OperatorLoop.RESYNC.value}
    with connected(5.0, "test") as connection:
        running = asyncio.create_task(program.operate(settings, connection, metrics))
        await eventually(
            lambda: metrics.registry.get_sample_value("gputopo_operator_errors_total", labels) == 1
        )
        os.kill(os.getpid(), signal.SIGTERM)
        await running
    assert not api.all("jobs")


async def test_operator_updates_profiles_and_forgets_deleted_nodes(api: ApiServer) -> None:
    def count(name: str) -> int | None:
        found: int | None = (
            (api.get("gpuprofiles", name) or {}).get("status", {}).get("sampleCount")
        )
        return found

    settings = OperatorSettings(
        probes_host="127.0.0.1", health_port=free_port(), profile_delay_seconds=0.1
    )
    with connected(5.0, "test") as connection:
        operate = program.operate(settings, connection, OperatorMetrics())
        running = asyncio.create_task(operate)
        api.create("gputopologies", reporting("n1", samples=[node_sample(profile="late")]))
        api.create("gpuprofiles", gpu_profile("first"))
        await eventually(lambda: count("first") == 0)
        api.delete("gputopologies", "n1")
        api.create("gputopologies", reporting("n2", samples=[node_sample(profile="first")]))
        await eventually(lambda: count("first") == 1)
        api.create("gpuprofiles", gpu_profile("late"))
        await eventually(lambda: count("late") == 0)
        os.kill(os.getpid(), signal.SIGTERM)
        await running


async def test_operator_starts_queued_jobs_when_a_node_or_the_resync_offers_gpus(
    api: ApiServer,
) -> None:
    def started(name: str) -> bool:
        child = api.get("jobs", name)
        return child is not None and not child["spec"]["suspend"]

    settings = OperatorSettings(
        probes_host="127.0.0.1", health_port=free_port(), queue_order="FIFO", resync_seconds=0.5
    )
    with connected(5.0, "test") as connection:

        def add(name: str, gpus: int) -> None:
            api.create("gputopologies", node(name, gpus))
            api.create("nodes", plain_node(name))

        add("n0", 1)
        api.faults.append(Fault("GET", r"/gputopologies\?limit", 500))
        operate = program.operate(settings, connection, OperatorMetrics())
        running = asyncio.create_task(operate)
        api.create("gpujobs", gpu_job("train"))
        await eventually(lambda: phase(api) == "Queued")
        api.delete("gputopologies", "n0")
        api.delete("nodes", "n0")
        add("n1", 3)
        await eventually(lambda: started("train"))
        # A change of the GPUTopology that does not change its GPUs needs no decision.
        api.change("gputopologies", "n1", lambda found: found["metadata"].update(labels={"a": "b"}))
        api.create("gpujobs", gpu_job("unseen"))
        await eventually(lambda: phase(api, "unseen") == "Queued")
        api.mute = True
        add("n2", 3)
        await eventually(lambda: started("unseen"))
        os.kill(os.getpid(), signal.SIGTERM)
        await running


async def test_operator_ends_sharings_that_do_not_pay_if_gpus_are_shared(api: ApiServer) -> None:
    settings = OperatorSettings(
        probes_host="127.0.0.1", health_port=free_port(), sharing_judge_seconds=0.01
    )
    node = SharedGpuOfNode(api)
    node.add("first", 4)
    api.create("gputopologies", observed_topology("n2", {}))
    with connected(5.0, "test") as connection:
        operate = program.operate(settings, connection, OperatorMetrics())
        running = asyncio.create_task(operate)
        node.add("last", 3, {SHARING_IF_SLOW_ANNOTATION: "Move"})

        def is_moved() -> bool:
            node.publish()  # each report of the node is judged at once
            return node.pods == ["first"]

        await eventually(is_moved)
        os.kill(os.getpid(), signal.SIGTERM)
        await running


async def test_sharing_job_joins_a_gpu_when_profiles_show_that_it_gains(api: ApiServer) -> None:
    topology = small_node(0, name="n1")
    share = share_id(topology.gpus[0].uuid, 0)
    api.create("gputopologies", sharing_topology("n1", topology))
    api.create("nodes", plain_node("n1"))
    api.put("pods", sharing_pod("x", "b", share=share, node="n1", phase="Running"))
    settings = OperatorSettings(
        probes_host="127.0.0.1",
        health_port=free_port(),
        queue_order="FIFO",
        sharing_judge_seconds=60,
    )
    sharing = {"sharing": {"mode": "Allowed"}, "workload": {"profile": "a"}}
    with connected(5.0, "test") as connection:
        operate = program.operate(settings, connection, OperatorMetrics())
        running = asyncio.create_task(operate)
        api.create("gpujobs", gpu_job("new", gpusPerReplica=1, **sharing))
        await eventually(lambda: phase(api, "new") == "Queued")
        api.delete("gpuprofiles", "a")  # the operator has created it for the job
        for profile in pairs(model=topology.gpus[0].model):
            api.create("gpuprofiles", profile)

        def is_started() -> bool:
            child = api.get("jobs", "new")
            return child is not None and not child["spec"]["suspend"]

        await eventually(is_started)
        os.kill(os.getpid(), signal.SIGTERM)
        await running


@pytest.mark.parametrize(
    ("loop", "request_of_loop"),
    [
        (OperatorLoop.GPUJOBS, r"/gpujobs/train$"),
        (OperatorLoop.GPUPROFILES, r"/gpuprofiles/first$"),
        (OperatorLoop.ENSEMBLES, r"/gpuensembles\?limit"),
        (OperatorLoop.MEASURING, r"/pods\?.*labelSelector=gputopo.io%2Fprof"),
        (OperatorLoop.SIZING, rf"/nodes/{SIZED_NODE}$"),
        (OperatorLoop.QUEUE, r"/priorityclasses"),
        (OperatorLoop.SHARING, r"/pods\?.*fieldSelector=spec.nodeName"),
        (OperatorLoop.RESYNC, r"/gpuprofiles\?limit"),
    ],
    ids=str,
)
async def test_failures_of_each_loop_are_counted(
    api: ApiServer, loop: OperatorLoop, request_of_loop: str
) -> None:
    settings = OperatorSettings(
        probes_host="127.0.0.1",
        health_port=free_port(),
        queue_order="FIFO",
        resync_seconds=0.2,
        sharing_judge_seconds=60,
    )
    SizedCluster(api).add("a")
    shared = SharedGpuOfNode(api)
    metrics = OperatorMetrics()

    def count() -> float:
        labels = {"loop": loop.value}
        return metrics.registry.get_sample_value("gputopo_operator_errors_total", labels) or 0

    assert count() == 0
    with connected(5.0, "test") as connection:
        running = asyncio.create_task(program.operate(settings, connection, metrics))
        await eventually(lambda: api.count("GET", "gputopo.io%2Ftuned") > 1)
        api.faults.append(Fault("GET", request_of_loop, 500, times=None))
        api.create("gpujobs", gpu_job("train"))
        api.create("gpuprofiles", gpu_profile("first"))
        for name, rate in (("fast", 4), ("slow", 3)):
            shared.add(name, rate)
        await eventually(lambda: count() > 0)
        os.kill(os.getpid(), signal.SIGTERM)
        await running


def test_module_runs_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["gputopo-operator", "--workers", "0"])
    with pytest.raises(SystemExit, match="--workers"):
        runpy.run_path(str(program.__file__), run_name="__main__")


async def test_operator_measures_pods_and_restores_those_of_a_killed_operator(
    api: ApiServer,
) -> None:
    cluster = MeasuredCluster(api)
    cluster.annotate(profiling_seconds="604800")
    settings = OperatorSettings(
        probes_host="127.0.0.1", health_port=free_port(), resync_seconds=0.5
    )
    cluster.now = datetime.now(UTC)
    with connected(5.0, "test") as connection:
        api.faults.append(Fault("GET", r"/pods\?.*labelSelector=gputopo.io%2Fprof", 500))
        running = asyncio.create_task(program.operate(settings, connection, OperatorMetrics()))
        cluster.request()
        cluster.measure(0)
        await eventually(lambda: cluster.cpu()[1] == "8000m")
        # No agent reports the pod any more; the operator finds it by its label.
        api.change("gputopologies", NODE, lambda found: found.update(status={}))
        cluster.annotate(profiling=None)
        await eventually(lambda: cluster.cpu()[1] == "4000m")
        os.kill(os.getpid(), signal.SIGTERM)
        await running


async def test_operator_sizes_pods_while_they_have_the_label(api: ApiServer) -> None:
    cluster = SizedCluster(api)
    cluster.add("unlabelled")
    cluster.change("unlabelled", metadata={"labels": {}})
    settings = OperatorSettings(
        probes_host="127.0.0.1", health_port=free_port(), sizing_round_seconds=1.0
    )

    def has(**cpus: int) -> bool:
        cluster.run_kubelet()
        return cluster.cpus == cpus

    def is_bound(name: str) -> bool:
        cluster.run_scheduler()
        return "nodeName" in api.pod(name)["spec"]

    metrics = OperatorMetrics()
    with connected(5.0, "test") as connection:
        running = asyncio.create_task(program.operate(settings, connection, metrics))
        await eventually(lambda: api.count("GET", "gputopo.io%2Ftuned") > 1)
        assert metrics.registry.get_sample_value("gputopo_operator_node_queue_length") == 0
        assert api.count("GET", "/nodes/|spec.nodeName") == 0
        cluster.add("a", profile="linear")
        await eventually(lambda: has(a=7000))
        api.change("gpuprofiles", "linear", lambda it: it["status"]["facts"]["cpus"].clear())
        await eventually(lambda: api.count("GET", "gpuprofiles/linear") > 2)
        cluster.add_waiting("web", cpu="3")
        await eventually(lambda: is_bound("web"))
        api.create("gputopologies", observed_topology(SIZED_NODE, dict.fromkeys(GPUS, "uid-a")))
        api.delete("gputopologies", SIZED_NODE)
        api.delete("gpuprofiles", "linear")
        cluster.change("a", metadata={"labels": {}})
        decisions = api.count("GET", "/nodes/")
        cluster.add_waiting("late", cpu="3")
        await eventually(lambda: api.count("GET", "/nodes/") > decisions)
        cluster.change("a", metadata={"labels": {TUNED_LABEL: "true"}})
        await eventually(lambda: api.count("GET", "/nodes/") > decisions + 1)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
