"""The agent of one node loses the API server while the node stays Ready."""

import time

from faulttest import agents, pods
from faulttest.bench import Bench
from faulttest.pods import NAMESPACE
from faulttest.scenario import Options
from localcluster.packets import dropped
from soaktest.world import PodView

_LOSS_SECONDS = 180.0
_ALLOCATABLE_SECONDS = 60.0
_RECOVERY_SECONDS = 60.0
_MOST_FAILED = 2
_BEFORE, _WANTED = 6, 8
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_KUBELET_SHARE = 0.4


def carry_out(bench: Bench, options: Options) -> None:
    """Disconnect the agent while a Deployment is scaled up."""
    node, seconds = bench.nodes[0], options.seconds or _LOSS_SECONDS
    address = agents.address(bench, node)
    bench.create(pods.deployment("web", _BEFORE, bench.image, node), _DEPLOYMENTS)
    bench.reach("six pods run", lambda: len(_running(bench)) == _BEFORE)
    before = {pod.uid for pod in _running(bench)}
    with dropped(bench.machines, node, address):
        began = time.monotonic()
        more = {"spec": {"replicas": _WANTED}}
        bench.patient(lambda: bench.client.patch(f"{_DEPLOYMENTS}/web", more))
        _wait_allocatable(bench, node)
        time.sleep(max(0.0, began + _KUBELET_SHARE * seconds - time.monotonic()))
        bench.machines.set_kubelet(node, on=False)
        bench.machines.set_kubelet(node, on=True)
        bench.report("kubelet is up again")
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        _judge(bench, before)
    bench.seen["seconds until all GPUs are allocatable and all pods run"] = bench.reach(
        "all GPUs are allocatable and eight pods run",
        lambda: bench.allocatable(node) == _WANTED == len(_running(bench)),
        _RECOVERY_SECONDS,
    )
    bench.patient(lambda: bench.client.delete(f"{_DEPLOYMENTS}/web"))


def _wait_allocatable(bench: Bench, node: str) -> None:
    bench.seen["seconds until allocatable equals assigned"] = bench.reach(
        f"allocatable GPUs of {node} equal the assigned ones",
        lambda: bench.allocatable(node) == bench.live(node),
        _ALLOCATABLE_SECONDS,
    )
    allocatable = bench.patient(lambda: bench.allocatable(node))
    bench.report(f"{allocatable} allocatable, {bench.live(node)} in containers")


def _judge(bench: Bench, before: set[str]) -> None:
    failed = _failed(bench)
    reasons: dict[str, int] = {}
    for pod in failed:
        reasons[pod.why] = reasons.get(pod.why, 0) + 1
    bench.seen["pods Failed"] = len(failed)
    bench.seen["their reasons"] = reasons
    if len(failed) > _MOST_FAILED:
        bench.finding("too many pods Failed", f"{len(failed)}, at most {_MOST_FAILED}: {reasons}")
    bench.seen["pods that ran before and still run"] = sum(map(bench.still_runs, before))


def _running(bench: Bench) -> list[PodView]:
    return [pod for pod in bench.pod_watcher.pods() if _is_mine(pod) and bench.runs(pod.uid)]


def _failed(bench: Bench) -> list[PodView]:
    """Return all pods of the Deployment that ever failed, also those that are gone."""
    return [
        pod
        for pod in list(bench.pod_watcher.seen.values())
        if _is_mine(pod) and pod.phase == "Failed"
    ]


def _is_mine(pod: PodView) -> bool:
    return pod.namespace == NAMESPACE
