"""The operator sizes the running pods of a node; with a fake API server, kubelet and scheduler."""

from itertools import groupby

import pytest

from gputopo.api.names import PROFILING_LABEL, RESOURCE, TUNED_LABEL
from gputopo_kube.document import ObjectKey
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.profiler import Profiler
from gputopo_operator.controller.profiling_api import ProfilingApi
from gputopo_operator.controller.tuner import NO_GPUS_SECONDS, Tuner
from gputopo_operator.controller.tuning_api import TuningApi
from gputopo_operator.controller.waiting_pods import WAIT_SECONDS, WaitingPods
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.settings import OperatorSettings
from support.api.faults import Fault
from support.api.server import ApiServer
from support.profiling.cluster import NAME, MeasuredCluster
from support.tuning.api_cluster import (
    FLAT,
    LINEAR,
    NODE,
    SizedCluster,
    node_object,
    profile_object,
    sized_container,
)
from support.tuning.operator import OperatorUnderTest

MEASURED = ObjectKey("default", NAME)


@pytest.fixture
def cluster(api: ApiServer) -> SizedCluster:
    return SizedCluster(api)


@pytest.fixture
def operator(connection: SyncApi, cluster: SizedCluster) -> OperatorUnderTest:
    return OperatorUnderTest(connection, cluster)


def test_pod_that_arrives_is_raised_and_cuts_pods_that_need_less(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("flat", profile="flat", container=sized_container(cpu="1"))
    operator.run()
    cluster.add("linear", profile="linear")
    operator.run()
    assert cluster.cpus == {"flat": 1000, "linear": 7000}
    [(reason, note)] = cluster.events("linear")
    assert reason == "Resized"
    assert note.startswith("resized from 1000m to 7000m CPU: ")
    resized = {"result": "Resized"}
    assert operator.metric("gputopo_operator_resizes_total", **resized) == 1
    assert operator.metric("gputopo_operator_sized_pods_cpus", node=NODE) == 8


def test_pods_keep_their_amounts_while_kubelet_offers_no_gpus(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    """After a restart of kubelet or of the agent, a node has no GPUs until the agent registers."""

    def offer(gpus: str) -> None:
        offered = {RESOURCE: gpus}
        cluster.api.change("nodes", NODE, lambda it: it["status"]["allocatable"].update(offered))

    cluster.add("a", mode="Proportional")
    operator.run()
    assert cluster.cpus == {"a": 2000}  # the share of one of four GPUs
    offer("0")
    assert operator.advance() == NO_GPUS_SECONDS
    assert cluster.cpus == {"a": 2000}
    offer("2")
    operator.run()
    assert cluster.cpus == {"a": 4000}


def test_pods_that_remain_are_raised_after_a_departure(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    for name in ("a", "b"):
        cluster.add(name, profile="linear")
    operator.run()
    assert sum(cluster.cpus.values()) == 8000
    assert min(cluster.cpus.values()) == 2000  # the share of one of four GPUs
    cluster.api.delete("pods", "a")
    operator.run()
    assert cluster.cpus == {"b": 8000}


def test_raise_is_written_before_the_cuts_that_make_it_possible(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    for name in ("a", "b"):
        cluster.add(name, profile="linear")
    operator.run()
    before = len(cluster.resizes)
    cluster.api.put("gpuprofiles", profile_object("linear", FLAT))
    cluster.api.put("gpuprofiles", profile_object("steep", LINEAR))
    cluster.annotate("a", profile="steep")
    operator.run()
    assert cluster.resizes[before:] == [("a", "7000m"), ("b", "1000m")]
    assert [event for event, _ in cluster.events("a")] == ["Resized", "Resized"]


def test_proportional_pods_get_their_share(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("a", mode="Proportional", profile="flat")
    cluster.add("b", container=sized_container(gpus=2))
    operator.run()
    assert cluster.cpus == {"a": 2000, "b": 4000}


def test_new_job_on_a_full_node_and_a_pod_of_the_default_scheduler_get_capacity(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    for name in ("a", "b", "c"):
        cluster.add(name, profile="linear")
    operator.run()
    assert sum(cluster.cpus.values()) == 8000
    cluster.add_unbound("d", profile="linear")
    cluster.add_waiting("web", cpu="1")
    assert operator.advance() == 5.0
    cluster.run_kubelet()
    cluster.run_scheduler()
    assert cluster.api.pod("web")["spec"]["nodeName"] == NODE
    assert cluster.api.pod("d")["spec"]["nodeName"] == NODE
    operator.run()
    assert sum(cluster.cpus.values()) == 7000
    assert min(cluster.cpus.values()) == 1750


def test_capacity_for_a_pending_pod_is_kept_for_a_minute(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    for name in ("a", "b"):
        cluster.add(name, profile="linear")
    operator.run()
    cluster.add_waiting("web", cpu="2")
    for _ in range(3):
        assert (operator.advance() or 0) <= WAIT_SECONDS
        cluster.run_kubelet()
        cluster.wait(5)
    assert sum(cluster.cpus.values()) == 6000
    cluster.wait(WAIT_SECONDS)
    operator.run()  # the scheduler has not bound the pod for another reason
    assert sum(cluster.cpus.values()) == 8000


def test_request_that_exceeds_what_pods_can_give_changes_nothing(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    for name in ("a", "b", "c", "d"):
        cluster.add(name, profile="linear")
    operator.run()
    before = cluster.resizes
    cluster.add_waiting("large", cpu="4")
    operator.run()
    assert cluster.resizes == before


def test_revert_is_reported_although_the_pod_changes_before_it(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("a", profile="linear")
    operator.advance()
    infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    held = {"cpu": "1", "memory": "4Gi"}
    status = {"name": "main", "resources": {"limits": held}, "allocatedResources": held}
    cluster.change("a", status={"conditions": [infeasible], "containerStatuses": [status]})
    cluster.api.faults.append(Fault("PATCH", "/pods/a/resize", 409, "the object has been modified"))
    assert operator.advance() == CONFLICT_DELAY_SECONDS
    assert [reason for reason, _ in cluster.events("a")] == ["ResizeRejected"]


def test_pod_that_is_measured_is_left_alone_until_it_has_its_own_cpus_back(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("a", profile="linear")
    cluster.add("b", profile="linear")
    cluster.change("a", metadata={"labels": {TUNED_LABEL: "true", PROFILING_LABEL: "true"}})
    operator.run()
    assert cluster.cpus["a"] == 1000
    # The node has 4 GPUs: 2 CPUs are kept for the pod that is measured.
    assert cluster.cpus["b"] == 6000
    cluster.change("a", metadata={"labels": {TUNED_LABEL: "true"}})
    operator.run()
    assert sum(cluster.cpus.values()) == 8000
    assert min(cluster.cpus.values()) == 2000


def test_measurement_of_cpus_and_sizing_do_not_disturb_each_other(
    api: ApiServer, connection: SyncApi
) -> None:
    cluster = MeasuredCluster(api)
    api.put("nodes", node_object(gpus=1))
    cluster.annotate(resources_mode="Proportional")
    cluster.change(metadata={"labels": {TUNED_LABEL: "true"}})
    objects, settings = JobApi(connection), OperatorSettings()
    tuner = Tuner(
        TuningApi(connection),
        objects,
        NodeStore(),
        WaitingPods(),
        OperatorMetrics().sizing,
        settings,
        lambda: cluster.now,
    )
    profiler = Profiler(ProfilingApi(connection), objects, settings, lambda: cluster.now)
    limits: list[str] = []
    for _ in range(40):
        tuner.advance(NODE)
        limits.append(cluster.cpu()[1])
        profiler.advance(MEASURED)
        limits.append(cluster.cpu()[1])
        cluster.measure()
    # What the profiler measures, then the restored limit, and only then the share of the pod.
    # It has no less than its floor: from 8 CPUs the search goes down to 4.
    measured = ["8000m", "6000m", "5000m", "4500m", "4000m"]
    assert [limit for limit, _ in groupby(limits)] == ["4", *measured, "8000m"]
    assert [reason for reason, _ in cluster.events()][-2:] == ["ProfilingDone", "Resized"]


def test_obstacle_is_reported_once(cluster: SizedCluster, operator: OperatorUnderTest) -> None:
    container = sized_container()
    del container["resources"]["limits"]["cpu"]
    cluster.add("a", container=container)
    operator.run()
    operator.run()
    [(reason, note)] = cluster.events("a")
    assert reason == "NotSized"
    assert "container main has no CPU request or no CPU limit; set both" in note
    assert cluster.api.count("POST", "/events") == 1


def test_node_without_sized_pods_costs_no_further_request(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    cluster.add("a", profile="linear")
    operator.run()
    cluster.change("a", metadata={"labels": {}})
    assert operator.advance() is None
    assert operator.metric("gputopo_operator_sized_pods_cpus", node=NODE) is None
    assert cluster.api.pod("a")["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "8000m"
    cluster.api.delete("nodes", NODE, "")
    assert operator.advance() is None


def report_rate(operator: OperatorUnderTest, uid: str, rate: int, milli_cpu: int) -> None:
    """Report steps per second of the pod ``a`` as the agent does."""
    measurement = {
        "namespace": "default",
        "pod": "a",
        "podUID": uid,
        "container": "main",
        "gpus": 1,
        "source": "SDK",
        "state": "Steady",
        "microStepsPerSecond": 1_000_000 * rate,
        "milliCPU": milli_cpu,
    }
    status = {"measurements": [measurement]}
    operator.nodes.reports.replace({"metadata": {"name": NODE, "uid": "u"}, "status": status})


def test_measured_rate_is_stored_before_a_resize(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    report_rate(operator, cluster.add("a", profile="linear"), rate=10, milli_cpu=1000)
    operator.advance()
    record = cluster.record("a")
    assert record is not None
    assert record.before_micro_steps_per_second == 10_000_000


def test_amounts_and_gain_of_a_pod_are_metrics_until_it_ends(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    uid, pod = cluster.add("a", profile="linear"), {"namespace": "default", "pod": "a"}
    report_rate(operator, uid, rate=10, milli_cpu=1000)
    operator.run()
    figures = [f"gputopo_operator_sized_pod_{it}" for it in ("cpus", "memory_bytes", "gain_ratio")]
    assert [operator.metric(name, **pod) for name in figures] == [8, 4 * 2**30, None]
    report_rate(operator, uid, rate=75, milli_cpu=8000)
    operator.advance()
    assert operator.metric(figures[-1], **pod) == 6.5
    cluster.api.delete("pods", "a")
    operator.advance()
    assert [operator.metric(name, **pod) for name in figures] == [None, None, None]


def test_mechanism_is_chosen_in_the_settings(cluster: SizedCluster, connection: SyncApi) -> None:
    operator = OperatorUnderTest(connection, cluster, sizing_mechanism="tune")
    cluster.add("a", profile="linear")
    cluster.add("b", profile="flat")
    operator.run()
    assert cluster.cpus["b"] <= 2000
    assert cluster.cpus["a"] > 4000
