"""kubelet's device checkpoint is deleted under running pods, and kubelet restarts."""

import time

from faulttest import pods
from faulttest.bench import Bench
from faulttest.scenario import Options

_CHECKPOINT = "kubelet/device-plugins/kubelet_internal_checkpoint"
_OLD = {"four": 4, "two": 2}
_REGISTERED_SECONDS = 5.0  # a pod that comes in the first moments of a kubelet fails anyway
_LOOK_SECONDS = 20.0
_SIZES = (4, 2, 1)


def carry_out(bench: Bench, options: Options) -> None:
    """Delete kubelet's records of running pods, and create pods of the same sizes."""
    node = bench.nodes[0]
    uids = {
        name: bench.start(pods.pod(name, gpus, bench.image, node)) for name, gpus in _OLD.items()
    }
    lives = {name: bench.sampler.of_pod(uid)[-1] for name, uid in uids.items()}
    bench.cluster.set_kubelet(node, on=False)
    (bench.paths.node(node) / _CHECKPOINT).unlink()
    bench.cluster.set_kubelet(node, on=True)
    bench.report("the checkpoint is deleted and kubelet is up again")
    time.sleep(_REGISTERED_SECONDS)
    new = {
        f"new-{gpus}": bench.create(pods.pod(f"new-{gpus}", gpus, bench.image, node))
        for gpus in _SIZES
    }
    time.sleep(options.seconds or _LOOK_SECONDS)
    _report(bench, node, new, "while the old pods run")
    for name, life in lives.items():
        if time.monotonic() - life.last > 1 or bench.failed(uids[name]):
            bench.finding("running pods lost", f"{name}: {bench.pod_watcher.seen[uids[name]]}")
    for name in _OLD:
        bench.delete(name)
    bench.reach(
        "the new pods run after the old ones ended",
        lambda: all(bench.runs(uid) or bench.failed(uid) for uid in new.values()),
    )
    _report(bench, node, new, "after they ended")


def _report(bench: Bench, node: str, new: dict[str, str], when: str) -> None:
    found = {}
    for name, uid in new.items():
        pod = bench.pod_watcher.seen[uid]
        found[name] = f"{pod.phase} {'on ' + pod.node if pod.node else 'not bound'} {pod.why}"
        if pod.phase == "Failed":
            bench.finding("pods Failed", f"{name}: {pod.why}")
    bench.seen[f"new pods {when}"] = found
    conditions = bench.topology(node)["status"].get("conditions", [])
    bench.seen[f"conditions of the GPUTopology {when}"] = [
        f"{one['type']}={one['status']} {one['reason']}: {one['message']}" for one in conditions
    ]
