"""etcd is restored from an old copy of its data: resource versions decrease, pods reappear."""

import shutil
import time
from pathlib import Path

from faulttest import pods
from faulttest.bench import Bench
from faulttest.scenario import Options
from localcluster import access
from localcluster.errors import ClusterError

_AGE_SECONDS = 600.0
_CHURN_SECONDS = 5.0
_LOOK_SECONDS = 60.0
_RECOVERY_SECONDS = 120.0
_GPUS = 8
_STARTS = 10
_RESTART_SECONDS = 3.0
_STORES = ("kube-apiserver", "etcd")
# As Kubernetes' documentation says: they watch from versions that are not there any more.
_RESTARTED = ("kube-controller-manager", "kube-scheduler")


def carry_out(bench: Bench, options: Options) -> None:
    """Copy etcd's data, run pods, and restore the copy while the extender runs."""
    first, second, third = bench.nodes[:3]
    bench.start(pods.pod("replaced-later", _GPUS, bench.image, first))
    bench.start(pods.pod("stays", 4, bench.image, second))
    copy = bench.paths.state / "etcd-copy"
    _copy(bench, copy)
    bench.delete("replaced-later")
    bench.reach("its object is gone", lambda: _names(bench) == {"stays"})
    bench.start(pods.pod("unknown-after-restore", _GPUS, bench.image, first))
    bench.start(pods.pod("also-unknown", 3, bench.image, third))
    _churn(bench, third, options.seconds or _AGE_SECONDS)
    version = _version(bench)
    extenders = _extenders(bench)
    _restore(bench, copy)
    bench.seen["resource version before and after"] = f"{version}, {_version(bench)}"
    bench.report(f"restored: version {version} is {_version(bench)}")
    _place_at_once(bench)
    time.sleep(_LOOK_SECONDS)
    bench.seen["pods a minute later"] = {
        pod.name: f"{pod.phase} on {pod.node} {pod.why}".strip()
        for pod in bench.pod_watcher.pods()
        if pod.namespace == pods.NAMESPACE
    }
    bench.seen["the extenders ran on"] = extenders == _extenders(bench)
    bench.remove_pods()
    began = time.monotonic()
    full = [bench.create(pods.pod(f"all-of-{n}", _GPUS, bench.image, n)) for n in bench.nodes]
    bench.reach(
        "a pod of all GPUs runs on each node",
        lambda: all(bench.runs(uid) for uid in full),
        _RECOVERY_SECONDS,
    )
    bench.seen["seconds until each node gave out all GPUs"] = round(time.monotonic() - began, 1)
    bench.judge_failed(full)


def _place_at_once(bench: Bench) -> None:
    """Create pods for GPUs of pods that the restored API server does not know."""
    began = time.monotonic()
    uids = [
        bench.create(pods.pod("beside-the-old", 4, bench.image, bench.nodes[1])),
        bench.create(pods.pod("after-the-unknown", _GPUS, bench.image, bench.nodes[2])),
    ]
    bench.reach(
        "pods that were created right after the restore run",
        lambda: all(bench.runs(uid) for uid in uids),
        _RECOVERY_SECONDS,
    )
    bench.seen["seconds until pods created right after the restore ran"] = round(
        time.monotonic() - began, 1
    )
    bench.judge_failed(uids)


def _copy(bench: Bench, target: Path) -> None:
    """Copy the data of a stopped etcd."""
    bench.cluster.set_part("etcd", on=False)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(_data(bench), target)
    bench.cluster.set_part("etcd", on=True)
    bench.report("etcd's data is copied")


def _restore(bench: Bench, copy: Path) -> None:
    for part in _STORES:
        bench.cluster.set_part(part, on=False)
    # A renamed folder is out of the way at once, whatever is still written or removed in it.
    replaced = _data(bench).with_name("etcd-replaced")
    _data(bench).rename(replaced)
    copy.rename(_data(bench))
    shutil.rmtree(replaced, ignore_errors=True)
    for part in _RESTARTED:
        bench.cluster.set_part(part, on=False)
    _start_control_plane(bench)
    for node in bench.nodes:
        bench.machines.set_kubelet(node, on=False)
        bench.machines.set_kubelet(node, on=True)
    killed = access.kill(bench.machines, "kube-scheduler")
    bench.report(f"kubelets and {killed} kube-schedulers restarted; gputopo's own programs run on")


def _start_control_plane(bench: Bench) -> None:
    """Start it again whenever a part ends, as kubelet does with static pods.

    The API server may end because etcd does not serve its data yet.
    """
    for start in range(1, _STARTS + 1):
        try:
            bench.cluster.set_part("etcd", on=True)
        except ClusterError as error:
            bench.report(f"start {start} of the control plane: {error}")
            if start == _STARTS:
                raise
            time.sleep(_RESTART_SECONDS)
        else:
            bench.seen["starts of the control plane"] = start
            return


def _data(bench: Bench) -> Path:
    return bench.paths.state / "etcd"


def _churn(bench: Bench, node: str, seconds: float) -> None:
    """Create and delete a small pod, so that resource versions increase."""
    ends = time.monotonic() + seconds
    number = 0
    while time.monotonic() < ends:
        bench.start(pods.pod(f"churn-{number}", 1, bench.image, node))
        bench.delete(f"churn-{number}")
        number += 1
        time.sleep(min(_CHURN_SECONDS, max(0.0, ends - time.monotonic())))


def _names(bench: Bench) -> set[str]:
    return {pod.name for pod in bench.pod_watcher.pods() if pod.namespace == pods.NAMESPACE}


def _version(bench: Bench) -> int:
    listed = bench.patient(lambda: bench.client.get(pods.PODS))
    return int(listed["metadata"]["resourceVersion"])


def _extenders(bench: Bench) -> set[tuple[int, str]]:
    """Return the processes of the extender, by number and container."""
    return {
        (process.pid, process.container_id)
        for process in access.of_program(bench.machines, "gputopo-extender")
    }
