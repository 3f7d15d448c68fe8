"""A node reboots with one GPU less and other minor numbers while pods run on it."""

import time
from dataclasses import replace

from faulttest import pods
from faulttest.bench import Bench
from faulttest.scenario import Options
from gputopo.catalogue import named
from gputopo.topology.model import GpuIndex, NodeTopology
from localcluster.fakegpus import playing
from showcase.kubectl import KubectlError
from showcase.truth import read_containers
from soaktest import truth

_MISSING = 2
_RESTART_SECONDS = 20.0
_PUBLISHED_SECONDS = 120.0
_START_SECONDS = 120.0


def carry_out(bench: Bench, _: Options) -> None:
    """Reboot a node without one of its GPUs, use the others, and reboot it with all."""
    node = bench.nodes[0]
    server = bench.cluster.record().servers[node]
    whole = named(server, node=node)
    before = [bench.start(pods.pod(f"before-{n}", 4, bench.image, node)) for n in range(2)]
    bench.machines.set_power(node, on=False)
    with playing(bench.paths, node, without(whole, _MISSING)):
        bench.machines.set_power(node, on=True)
        _wait_published(bench, node, len(whole.gpus) - 1)
        time.sleep(_RESTART_SECONDS)
        bench.seen["pods of before, with one GPU less"] = _texts(bench, before)
        _compare(bench, node)
        bench.remove_pods()
        _fill(bench, node, len(whole.gpus) - 1)
        bench.remove_pods()
        bench.machines.set_power(node, on=False)
    bench.machines.set_power(node, on=True)
    _wait_published(bench, node, len(whole.gpus))
    _fill(bench, node, len(whole.gpus))


def without(topology: NodeTopology, index: int) -> NodeTopology:
    """Return the node without one GPU; later GPUs get a lower index and minor number."""

    def moved(old: int) -> GpuIndex:
        return GpuIndex(old - (old > index))

    gpus = [gpu for gpu in topology.gpus if gpu.index != index]
    lost = next(gpu.minor for gpu in topology.gpus if gpu.index == index)
    links = [link for link in topology.links if index not in (link.a, link.b)]
    return replace(
        topology,
        gpus=tuple(
            replace(gpu, index=moved(gpu.index), minor=gpu.minor - (gpu.minor > lost))
            for gpu in gpus
        ),
        links=tuple(replace(link, a=moved(link.a), b=moved(link.b)) for link in links),
    )


def _wait_published(bench: Bench, node: str, gpus: int) -> None:
    bench.reach(
        f"{gpus} GPUs of {node} are published, healthy and allocatable",
        lambda: (
            len(bench.topology(node)["spec"]["gpus"])
            == bench.healthy(node)
            == bench.allocatable(node)
            == gpus
        ),
        _PUBLISHED_SECONDS,
    )


def _fill(bench: Bench, node: str, gpus: int) -> None:
    """Run a pod of all GPUs, and compare its environment and device nodes with all records."""
    name = f"all-{gpus}"
    uid = bench.create(pods.pod(name, gpus, bench.image, node))
    seconds = bench.reach(f"{name} runs", lambda: bench.runs(uid), _START_SECONDS)
    bench.seen[f"seconds until a pod of {gpus} GPUs ran"] = seconds
    bench.judge_failed([uid])
    if seconds is None:
        return
    try:
        found = bench.patient(lambda: bench.client.get(f"{pods.PODS}/{name}"))
        for one in read_containers(bench.installed.kubectl, [found]):
            bench.seen[f"all records of the pod of {gpus} GPUs agree"] = one.agrees
            if not one.agrees:
                bench.finding("containers with other GPUs than recorded", str(one))
    except KubectlError as error:
        bench.finding("records not read", str(error))


def _compare(bench: Bench, node: str) -> None:
    """Find containers whose device nodes are not those of the GPUs in their environment."""
    uuids = {gpu["minor"]: gpu["uuid"] for gpu in bench.topology(node)["spec"]["gpus"]}
    for one in truth.running(bench.machines):
        devices = {uuids.get(minor, f"minor {minor}") for minor in one.minors}
        if one.node == node and devices != set(one.visible):
            name = bench.pod_watcher.seen[one.pod_uid].name
            text = f"{name}: environment {sorted(one.visible)}, device nodes {sorted(devices)}"
            bench.finding("containers with other GPUs than recorded", text)


def _texts(bench: Bench, uids: list[str]) -> dict[str, str]:
    found = [bench.pod_watcher.seen[uid] for uid in uids]
    return {pod.name: f"{pod.phase} {pod.why}".strip() for pod in found}
