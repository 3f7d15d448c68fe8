"""NVML calls do not return: all GPUs become unhealthy, liveness fails, and both recover."""

import time

from faulttest import agents, pods
from faulttest.bench import Bench
from faulttest.nvml import changed
from faulttest.scenario import Options

_LIMIT_SECONDS = 30.0
_HANG_SECONDS = 60.0
_RECOVERY_SECONDS = 90.0


def carry_out(bench: Bench, options: Options) -> None:
    """Make NVML of one node hang while a pod runs."""
    node = bench.nodes[0]
    uid = bench.start(pods.pod("running", 2, bench.image, node))
    address = agents.address(bench, node)
    with changed(bench.machines, node, "hang"):
        began = time.monotonic()
        unhealthy = bench.reach(
            "all GPUs are published as unhealthy", lambda: bench.healthy(node) == 0, _LIMIT_SECONDS
        )
        bench.seen["seconds until all GPUs are unhealthy"] = unhealthy
        failing = bench.reach(
            "/livez fails",
            lambda: not agents.is_alive(address),
            max(1.0, _LIMIT_SECONDS - (time.monotonic() - began)),
        )
        bench.seen["/livez failed"] = failing is not None
        bench.reach("kubelet offers no GPU", lambda: bench.allocatable(node) == 0, _LIMIT_SECONDS)
        rest = (options.seconds or _HANG_SECONDS) - (time.monotonic() - began)
        time.sleep(max(0.0, rest))
        healthy = bench.patient(lambda: bench.healthy(node))
        bench.seen["healthy GPUs at the end of the hang"] = healthy
    bench.seen["seconds until all GPUs are healthy again"] = bench.reach(
        "all GPUs are healthy and allocatable again",
        lambda: bench.healthy(node) == bench.allocatable(node) == len(_gpus(bench, node)),
        _RECOVERY_SECONDS,
    )
    if bench.still_runs(uid) and len(bench.sampler.of_pod(uid)) != 1:
        bench.finding("running pods lost", f"{bench.pod_watcher.seen[uid]}")


def _gpus(bench: Bench, node: str) -> list[object]:
    gpus: list[object] = bench.topology(node)["spec"]["gpus"]
    return gpus
