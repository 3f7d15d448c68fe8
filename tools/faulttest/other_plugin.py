"""Another device plugin or DRA driver begins to serve a node's GPUs while pods run on them."""

from faulttest import pods
from faulttest.bench import Bench
from faulttest.scenario import Options

_RESOURCES = ("nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/pgpu")
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_DRIVER = "gpu.nvidia.com"
_LIMIT_SECONDS = 60.0
_NODES = "/api/v1/nodes"


def carry_out(bench: Bench, _: Options) -> None:
    """Offer the GPUs by each other allocator in turn, on a node with a running pod."""
    node = bench.nodes[0]
    uid = bench.start(pods.pod("running", 2, bench.image, node))
    for resource in _RESOURCES:
        _advertise(bench, node, resource, "4")
        _judge(bench, node, resource)
        _advertise(bench, node, resource, None)
        _recover(bench, node, resource)
    slice_name = f"{node}-{_DRIVER}"
    bench.create(_slice(slice_name, node), _SLICES)
    _judge(bench, node, _DRIVER)
    bench.patient(lambda: bench.client.delete(f"{_SLICES}/{slice_name}"))
    _recover(bench, node, _DRIVER)
    if not bench.runs(uid) or len(bench.sampler.of_pod(uid)) != 1:
        bench.finding("running pods lost", str(bench.pod_watcher.seen[uid]))


def _judge(bench: Bench, node: str, what: str) -> None:
    """Wait until the node offers no more than the running pod has, and a new pod is not Failed."""
    bench.seen[f"{what}: seconds until the node offers no free GPU"] = bench.reach(
        f"{node} offers no free GPU beside {what}",
        lambda: bench.allocatable(node) <= bench.live(node),
        _LIMIT_SECONDS,
    )
    topology = bench.patient(lambda: bench.topology(node))
    conditions = topology["status"].get("conditions", [])
    bench.seen[f"{what}: conditions"] = [
        f"{one['type']}={one['status']} {one['reason']}: {one['message']}"
        for one in conditions
        if one["status"] != "True"
    ]


def _recover(bench: Bench, node: str, what: str) -> None:
    bench.seen[f"{what}: seconds until all GPUs are offered again"] = bench.reach(
        f"{node} offers all GPUs after {what}",
        lambda: bench.allocatable(node) == len(bench.topology(node)["spec"]["gpus"]),
        _LIMIT_SECONDS,
    )


def _advertise(bench: Bench, node: str, resource: str, amount: str | None) -> None:
    """Write an extended resource to the node's status, or remove it."""
    change = {"status": {"capacity": {resource: amount}, "allocatable": {resource: amount}}}
    bench.patient(lambda: bench.client.patch(f"{_NODES}/{node}/status", change))


def _slice(name: str, node: str) -> dict[str, object]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": _DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    }
