"""Operator processes size the running pods of a node; kubelet and schedulers are simulated."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.api.faults import CLOSED, Fault
from support.api.server import ApiServer, serving_in_thread
from support.builders.gpujobs import gpu_job
from support.operator.process import Operator, eventually, running
from support.tuning.api_cluster import NODE, SizedCluster

WATCH = "gputopo.io%2Ftuned.*watch"


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with serving_in_thread(ApiServer()) as server:
        yield server


@pytest.fixture
def cluster(api: ApiServer) -> SizedCluster:
    return SizedCluster(api)


@contextmanager
def watching(
    api: ApiServer, folder: Path, name: str = "first", arguments: Sequence[str] = ()
) -> Iterator[Operator]:
    (folder / name).mkdir()
    operator = Operator(api, folder / name, arguments=arguments)
    watches = api.count("GET", WATCH)
    with running(operator):
        eventually("a watch of sized pods", lambda: api.count("GET", WATCH) > watches)
        yield operator


def wait_until(cluster: SizedCluster, what: str, holds: Callable[[], bool]) -> None:
    """Let kubelet and the schedulers work until a condition holds."""

    def look() -> bool:
        cluster.run_scheduler()
        assert cluster.total() <= 8000
        return holds()

    eventually(what, look)


def wait_for_cpus(cluster: SizedCluster, **cpus: int) -> None:
    """Wait until pods have these CPUs, and until the operator knows that they are in effect."""

    def holds() -> bool:
        records = [cluster.record(name) for name in cpus]
        done = all(record is None or record.done for record in records)
        return done and cluster.cpus == cpus

    wait_until(cluster, f"{cpus}", holds)


def add_three(cluster: SizedCluster) -> None:
    for name, profile in (("a", "linear"), ("b", "flat"), ("c", "linear")):
        cluster.add(name, profile=profile)


def test_pods_are_raised_on_arrival_and_cut_for_pods_that_wait(
    cluster: SizedCluster, tmp_path: Path
) -> None:
    add_three(cluster)
    uids = [cluster.api.pod(name)["metadata"]["uid"] for name in "abc"]
    with watching(cluster.api, tmp_path):
        wait_for_cpus(cluster, a=5000, b=1000, c=2000)
        cluster.add_unbound("d", profile="flat")
        cluster.add_waiting("web", cpu="1")
        wait_until(
            cluster,
            "the new job and the pod of the default scheduler run",
            lambda: all(cluster.api.pod(name)["spec"].get("nodeName") for name in ("d", "web")),
        )
        assert [cluster.api.pod(name)["metadata"]["uid"] for name in "abc"] == uids
        assert min(cluster.cpus[name] for name in "ac") >= 1750
    reasons = {reason for name in "abcd" for reason, _ in cluster.events(name)}
    assert reasons == {"Resized"}


@pytest.mark.parametrize(
    "path", ["/pods/a/status", "/pods/a/resize", "/pods/c/status", "/pods/c/resize"]
)
def test_killed_operator_leaves_a_state_from_which_the_next_continues(
    cluster: SizedCluster, tmp_path: Path, path: str
) -> None:
    """The write is carried out, and the operator is killed before it gets the response."""
    add_three(cluster)
    fault = Fault("PATCH", path, CLOSED, carried_out="yes")
    cluster.api.faults.append(fault)
    (tmp_path / "killed").mkdir()
    first = Operator(cluster.api, tmp_path / "killed")
    first.start()
    eventually("the write", lambda: fault not in cluster.api.faults)
    first.kill()
    with watching(cluster.api, tmp_path, "second"):
        wait_until(
            cluster,
            "jobs that need CPUs have their share",
            lambda: min(cluster.cpus[name] for name in "ac") >= 2000,
        )


def test_two_operators_resize_each_pod_once(cluster: SizedCluster, tmp_path: Path) -> None:
    add_three(cluster)
    with watching(cluster.api, tmp_path) as first, watching(cluster.api, tmp_path, "second"):
        wait_for_cpus(cluster, a=5000, b=1000, c=2000)
        first.wait_until_idle()
    assert sorted(cluster.resizes) == [("a", "5000m"), ("c", "2000m")]
    for name in "ac":
        assert [reason for reason, _ in cluster.events(name)] == ["Resized"]


def test_rejected_resize_is_reported_and_others_are_carried_out(
    cluster: SizedCluster, tmp_path: Path
) -> None:
    add_three(cluster)
    cluster.api.faults.append(Fault("PATCH", "/pods/a/resize", 403, "quota", times=None))
    with watching(cluster.api, tmp_path):
        wait_until(cluster, "the other pod is raised", lambda: cluster.cpus["c"] >= 2000)
        eventually("an event", lambda: cluster.events("a"))
    [(reason, note)] = cluster.events("a")
    assert reason == "ResizeRejected"
    assert "quota" in note
    assert cluster.cpus["a"] == 1000


def test_idle_operator_ends_at_once(cluster: SizedCluster, tmp_path: Path) -> None:
    add_three(cluster)
    with watching(cluster.api, tmp_path, arguments=["--queue-order", "FIFO"]) as operator:
        wait_for_cpus(cluster, a=5000, b=1000, c=2000)
        cluster.api.create("gpujobs", gpu_job("train"))
        operator.wait_phase("train", "Queued")
        operator.wait_until_idle()
    # At its end kopf waits 5 s for each task that was created after kopf's own.
    assert "Hung tasks are stopped" not in operator.log, operator.log


def test_operator_without_sized_pods_requests_nothing_for_them(
    cluster: SizedCluster, tmp_path: Path
) -> None:
    cluster.add("fixed", mode="Fixed")
    cluster.change("fixed", metadata={"labels": {}})
    cluster.add_waiting("web", cpu="9")
    with watching(cluster.api, tmp_path) as operator:
        operator.wait_until_idle()
    assert cluster.api.count("GET", f"nodes/{NODE}|fieldSelector") == 0
