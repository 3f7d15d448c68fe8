"""A GPU reports an XID that only a reset clears: time alone must not clear it."""

import time

from faulttest import agents
from faulttest.bench import Bench
from faulttest.nvml import changed
from faulttest.scenario import Options

_XID = 95  # uncontained memory error
_INDEX = 3
_NOTICED_SECONDS = 20.0
_LOOK_SECONDS = 360.0
_REBOOT_SECONDS = 180.0


def carry_out(bench: Bench, options: Options) -> None:
    """Report the XID, restart the agent, watch the GPU for six minutes, and reboot the node."""
    node = bench.nodes[0]
    with changed(bench.machines, node, f"xid {_INDEX} {_XID}"):
        bench.seen["seconds until the GPU is unhealthy"] = bench.reach(
            "the GPU is unhealthy", lambda: not _is_healthy(bench, node), _NOTICED_SECONDS
        )
        agents.kill(bench, node)
        time.sleep(1)
        agents.wait_ready(bench, node)
        bench.seen["seconds until it was healthy again"] = _watch(
            bench, node, options.seconds or _LOOK_SECONDS
        )
        bench.seen["its message"] = _message(bench, node)
        bench.machines.set_power(node, on=False)
    bench.machines.set_power(node, on=True)
    bench.seen["seconds until it is healthy after a reboot"] = bench.reach(
        "the GPU is healthy after a reboot", lambda: _is_healthy(bench, node), _REBOOT_SECONDS
    )


def _watch(bench: Bench, node: str, seconds: float) -> float | None:
    """Return after how many seconds the GPU was published as healthy, which is an error."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if bench.patient(lambda: _is_healthy(bench, node)):
            after = round(time.monotonic() - began, 1)
            bench.finding("healthy without a reset", f"XID {_XID}: after {after} s")
            return after
        time.sleep(1)
    return None


def _gpu(bench: Bench, node: str) -> dict[str, object]:
    """Return the published state of the GPU; its index in NVML is its place in the list."""
    gpus = bench.topology(node)
    uuid = next(gpu["uuid"] for gpu in gpus["spec"]["gpus"] if gpu["index"] == _INDEX)
    found: dict[str, object] = next(gpu for gpu in gpus["status"]["gpus"] if gpu["uuid"] == uuid)
    return found


def _is_healthy(bench: Bench, node: str) -> bool:
    return bool(_gpu(bench, node)["healthy"])


def _message(bench: Bench, node: str) -> str:
    gpu = _gpu(bench, node)
    return str(gpu.get("reason") or gpu.get("message") or gpu)
