"""kubelet's device checkpoint is deleted under running pods, and kubelet restarts."""

import time

from faulttest import pods
from faulttest.bench import Bench
from faulttest.scenario import Options
from gputopo.api.names import RESOURCE
from gputopo_deviceplugin.kubelet.registration import is_socket_of

_PLUGINS = "/var/lib/kubelet/device-plugins"
_CHECKPOINT = f"{_PLUGINS}/kubelet_internal_checkpoint"
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
    bench.machines.set_kubelet(node, on=False)
    try:
        bench.machines.file(node, _CHECKPOINT).unlink()
        before = _sockets(bench, node)
    finally:
        bench.machines.set_kubelet(node, on=True)
    bench.report("the checkpoint is deleted and kubelet is up again")
    # The conditions of the node and of the agent may still be those before the restart.
    bench.reach(
        "the agent registers again, with another socket",
        lambda: bool(_sockets(bench, node) - before),
    )
    time.sleep(_REGISTERED_SECONDS)
    new = {
        f"new-{gpus}": bench.create(pods.pod(f"new-{gpus}", gpus, bench.image, node))
        for gpus in _SIZES
    }
    time.sleep(options.seconds or _LOOK_SECONDS)
    _report(bench, node, new, "while the old pods run")
    for name, uid in uids.items():
        if bench.still_runs(uid) and len(bench.sampler.of_pod(uid)) != 1:
            bench.finding("running pods lost", f"{name}: {bench.pod_watcher.seen[uid]}")
    for name in _OLD:
        bench.delete(name)
    bench.reach(
        "the new pods run after the old ones ended",
        lambda: all(bench.runs(uid) or bench.failed(uid) for uid in new.values()),
    )
    _report(bench, node, new, "after they ended")


def _sockets(bench: Bench, node: str) -> set[str]:
    """Return the names of the agent's sockets for whole GPUs; each registration has its own."""
    files = [each.name for each in bench.machines.file(node, _PLUGINS).iterdir()]
    return {each for each in files if is_socket_of(RESOURCE.replace("/", "-"), each)}


def _report(bench: Bench, node: str, new: dict[str, str], when: str) -> None:
    found = {}
    for name, uid in new.items():
        pod = bench.pod_watcher.seen[uid]
        found[name] = f"{pod.phase} {'on ' + pod.node if pod.node else 'not bound'} {pod.why}"
        if pod.phase == "Failed":
            bench.finding("pods Failed", f"{name}: {pod.why}")
    bench.seen[f"new pods {when}"] = found
    topology = bench.patient(lambda: bench.topology(node))
    conditions = topology["status"].get("conditions", [])
    bench.seen[f"conditions of the GPUTopology {when}"] = [
        f"{one['type']}={one['status']} {one['reason']}: {one['message']}" for one in conditions
    ]
