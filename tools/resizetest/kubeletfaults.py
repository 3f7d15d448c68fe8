"""Fault steps: kubelet's static CPU manager, and a node that loses CPUs."""

import time
from collections.abc import Sequence

from resizetest import sight
from resizetest.faultpods import Worker
from resizetest.sight import Expected
from resizetest.stage import Stage
from showcase.kubectl import wait_for

_STATIC = {"cpuManagerPolicy": "static", "systemReserved": {"cpu": "100m"}}
_SMALLER = {"systemReserved": {"cpu": "600m"}}
_SHRINK_SECONDS = 330.0
_OTHERS_MILLI_CPU = 300
"""More than gputopo's own pods on a node request."""


def static_policy(stage: Stage) -> None:
    """Guaranteed and Burstable jobs on a node whose kubelet gives whole CPUs to containers."""
    with stage.kubelet(_STATIC):
        _pinned(stage, Worker("static-whole", stage.node, 6, 1000, "128Mi"))
        _pinned(stage, Worker("static-part", stage.node, 4, 200, "128Mi"))
        resized = Expected(["Resized"], condition="True Resized")
        stage.start_job(Worker("static-burstable", stage.node, 4, 200))
        stage.check("static policy, memory request below limit", "static-burstable", resized)
        stage.bench.end(["static-burstable"])
        stage.start_pod(Worker("static-burst", stage.node, 4, 200, "128Mi", burst_milli_cpu=1))
        stage.check("static policy, CPU request below limit", "static-burst", resized)
        stage.remove("static-burst")


def shrunk(stage: Stage) -> None:
    """Kubelet offers 600m CPU less while two jobs have all CPUs of the node.

    When kubelet starts, it ends pods that do not fit, if it does not yet know the Node object. Then
    it accepts all pods. So a job may have a new pod afterwards.
    """
    bench, names = stage.bench, ("shrunk-a", "shrunk-b")
    gpus = stage.free_gpus() // 2
    for name in names:
        stage.start_job(Worker(name, stage.node, gpus))
    resized = Expected(["Resized"], condition="True Resized")
    for name in names:
        stage.check("node with its CPUs", name, resized)
    before, pods = stage.allocatable().milli_cpu, [_uid(stage, name) for name in names]
    with stage.kubelet(_SMALLER):
        wait_for("the node offers less", lambda: stage.allocatable().milli_cpu < before)
        began, has = time.monotonic(), stage.allocatable().milli_cpu
        bench.seen["node with fewer CPUs: allocatable"] = f"{has}m"
        wait_for("both jobs are cut", lambda: _fits(stage, names), timeout_s=_SHRINK_SECONDS)
        bench.seen["node with fewer CPUs: seconds until both are cut"] = time.monotonic() - began
        ended = sum(_uid(stage, name) != uid for name, uid in zip(names, pods, strict=True))
        bench.seen["node with fewer CPUs: pods that kubelet has ended at its start"] = ended
        for name in names:
            _check_cut(stage, name, gpus, has)
        bench.end(names)


def _fits(stage: Stage, names: Sequence[str]) -> bool:
    """Return whether all pods fit on the node, and no resize is in progress."""
    try:
        sights = [sight.look(stage.bench, name) for name in names]
    except TimeoutError:
        return False  # the pod is being replaced
    resting = all(each.record and each.record.done and not each.pod.problem for each in sights)
    return resting and stage.free().milli_cpu >= 0


def _uid(stage: Stage, name: str) -> str:
    pod = stage.bench.pod_of(name)
    return pod["metadata"]["uid"] if pod else ""


def _check_cut(stage: Stage, name: str, gpus: int, allocatable: int) -> None:
    """Check that a job has its share of the node, and was only resized."""
    seen = sight.look(stage.bench, name)
    sight.report(stage.bench, f"node with fewer CPUs: {name}", seen)
    of_node = len(stage.bench.topologies[stage.node]["gpus"])
    share = (allocatable - _OTHERS_MILLI_CPU) * gpus // of_node
    if seen.milli_cpu < share or seen.pod.restarts or {*seen.reasons} != {"Resized"}:
        text = f"{name}: {seen.milli_cpu}m of at least {share}m CPU, {seen.pod.restarts} restarts"
        stage.bench.finding("promise broken", f"{text}, events {seen.reasons}")


def _pinned(stage: Stage, worker: Worker) -> None:
    stage.start_job(worker)
    expected = Expected(
        ["ResizeRejected"],
        "is infeasible",
        condition="False Pinned",
        milli_cpu=worker.milli_cpu,
        record={"pinned": True},
    )
    stage.check("static policy", worker.name, expected)
    stage.bench.end([worker.name])
