"""Fault steps: a quota, a limit range, another client, and a raise that kubelet defers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from resizetest import faultpods, sight
from resizetest.faultpods import Worker
from resizetest.sight import Expected
from resizetest.stage import Stage, with_event
from showcase.kubectl import wait_for
from soaktest.client import Object, RejectedError, UnavailableError

_FLOOR, _LIMIT = 50, 200
_STATIC_MILLI_CPU = 1000
_STATIC_PODS = "/var/lib/kubelet/static-pods"
_DEFERRED_SECONDS, _AGAIN_SECONDS = 150.0, 420.0


def quota(stage: Stage) -> None:
    """A ResourceQuota is lower than the share of a job."""
    with _object(stage, "resourcequotas", faultpods.quota(_LIMIT)):
        _rejected(stage, "quota", "exceeded quota")


def limit_range(stage: Stage) -> None:
    """A LimitRange is lower than the share of a job."""
    with _object(stage, "limitranges", faultpods.limit_range(_LIMIT)):
        _rejected(stage, "limitrange", "maximum cpu usage per Container")


def other_client(stage: Stage) -> None:
    """Another client resizes a job that gputopo has resized."""
    bench, name, most, given = stage.bench, "other", 150, 120
    stage.start_job(Worker(name, stage.node, 2, _FLOOR, most_milli_cpu=most))
    before = Expected(["Resized"], milli_cpu=most, condition="True Resized")
    stage.check("other client, before", name, before)
    pod = bench.pod_of(name) or {}
    try:
        bench.resize(pod, 1000 * 1000)
    except RejectedError as error:
        bench.seen["other client: response to 1,000 CPUs"] = str(error)
    bench.resize(bench.pod_of(name) or {}, given)
    after = with_event(
        before,
        "ResizedByOther",
        note=f"to {given}m CPU",
        milli_cpu=given,
        condition="False Pinned",
        record={"pinned": True},
    )
    stage.check("other client", name, after)
    stage.start_job(Worker("other-neighbour", stage.node, 2, _FLOOR, most_milli_cpu=most))
    stage.check("other client, its neighbour", "other-neighbour", before)
    stage.check_stays("other client", name, after)
    bench.end([name, "other-neighbour"])


def deferred(stage: Stage) -> None:
    """Kubelet has less than the API server shows: a static pod without a mirror pod."""
    bench, name = stage.bench, "deferred"
    folder = bench.machines.file(stage.node, _STATIC_PODS)
    folder.mkdir(exist_ok=True)
    image = bench.installed.workload_image
    file = folder / "unseen.json"
    manifest = faultpods.static_pod("unseen", _STATIC_MILLI_CPU, image)
    file.write_text(json.dumps(manifest))
    try:
        with stage.kubelet({"staticPodPath": _STATIC_PODS}):
            _deferred(stage, name)
            file.unlink()
            stage.check(
                "deferred, tried again",
                name,
                Expected(["ResizeRejected", "Resized", "Resized"], condition="True Resized"),
                _AGAIN_SECONDS,
            )
            bench.end([name])
    finally:
        file.unlink(missing_ok=True)


def _deferred(stage: Stage, name: str) -> None:
    bench, proxy = stage.bench, f"/api/v1/nodes/{stage.node}/proxy/pods"

    def static_runs() -> bool:
        try:
            pods = bench.client.get(proxy)["items"]
        except UnavailableError:  # kubelet has just restarted
            return False
        return any(pod["metadata"]["name"].startswith("unseen") for pod in pods)

    wait_for("kubelet runs the static pod", static_runs)
    stage.start_job(Worker(name, stage.node, stage.free_gpus(), _FLOOR))
    wait_for(
        "the condition Sized is Deferred",
        lambda: sight.look(bench, name).condition == "False Deferred",
    )
    sight.report(bench, "deferred, at first: deferred", sight.look(bench, name))
    reverted = Expected(
        ["ResizeRejected", "Resized"],  # the last one is the withdrawal of the raise
        "was deferred for 60 s",
        condition="False Rejected",
        milli_cpu=_FLOOR,
        record={"deferrals": 1},
    )
    stage.check("deferred", name, reverted, _DEFERRED_SECONDS)
    stage.check_stays("deferred", name, reverted, 60.0)


def _rejected(stage: Stage, name: str, note: str) -> None:
    """Start a job whose raise the API server rejects."""
    stage.start_job(Worker(name, stage.node, 4, _FLOOR))
    rejected = Expected(
        ["ResizeRejected"],
        note,
        milli_cpu=_FLOOR,
        condition="False Rejected",
        record={"most_milli_cpu": _FLOOR, "done": True, "pinned": False},
    )
    stage.check(name, name, rejected)
    stage.check_stays(name, name, rejected)
    stage.bench.end([name])


@contextmanager
def _object(stage: Stage, kind: str, manifest: Object) -> Iterator[None]:
    """Create an object in the namespace inside the block; wait until a quota is in force."""
    client = stage.bench.client
    path = f"/api/v1/namespaces/{stage.bench.namespace}/{kind}"
    own = f"{path}/{manifest['metadata']['name']}"
    client.create(path, manifest)
    if kind == "resourcequotas":
        wait_for("the quota is in force", lambda: "hard" in client.get(own).get("status", {}))
    try:
        yield
    finally:
        client.delete(own)
