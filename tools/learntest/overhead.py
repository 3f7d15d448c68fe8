"""What measuring costs: the agent of a node with 8 containers, and writes to the API server."""

import json
import time
from datetime import UTC, datetime, timedelta

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.names import API_VERSION
from gputopo.api.profile import MAX_SAMPLES, GPUProfileSpec, GPUProfileStatus, Sample
from gputopo.profiles.update import updated_status
from learntest import agentcost, laws
from learntest.bench import Bench
from learntest.experiment import Options
from learntest.manifests import Run

_SECONDS = 180.0
_PAUSE_SECONDS = {"without steps": 120.0, "with steps": 300.0}
"""Pause after the last start. Jobs with steps then have their first three samples."""
_CONTAINERS = 8
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def carry_out(bench: Bench, options: Options) -> None:
    """Run 8 jobs on each node, first without steps and then with them."""
    seconds = {"without steps": _SECONDS, "with steps": options.seconds or _SECONDS}
    bench.seen["bytes of a full GPUProfile as JSON"] = len(json.dumps(_full(bench)))
    for name, silent in (("without steps", True), ("with steps", False)):
        runs = _runs(bench, silent=silent)
        bench.start(*runs)
        bench.report(f"{len(runs)} jobs {name}")
        time.sleep(_PAUSE_SECONDS[name])
        _watch(bench, name, seconds[name])
        bench.end(run.name for run in runs)


def _runs(bench: Bench, *, silent: bool) -> list[Run]:
    """Return 8 jobs of one GPU for each node; silent ones make their first step after a day."""
    law = laws.plain_law(1) | ({"seconds": 86400} if silent else {})
    kind = "silent" if silent else "loud"
    return [
        Run(
            f"{kind}-{node}-{number}",
            law | {"seed": number},
            node,
            gpus=1,
            milli_cpu=50,
            measuring=MeasuringRequest(profile=f"{kind}-{node}"),
        )
        for node in sorted(bench.topologies)
        for number in range(_CONTAINERS)
    ]


def _watch(bench: Bench, name: str, seconds: float) -> None:
    nodes = sorted(bench.topologies)
    before, written = (
        {node: agentcost.usage(bench, node) for node in nodes},
        agentcost.writes(bench),
    )
    time.sleep(seconds)
    after, minutes = {node: agentcost.usage(bench, node) for node in nodes}, seconds / 60
    for node in nodes:
        milli_cpu = after[node].milli_cpu_since(before[node])
        memory = f"{after[node].memory_mib:.1f} MiB"
        bench.seen[f"agent of {node}, {name}"] = f"{milli_cpu:.1f}m CPU, {memory}"
    for kind, number in (agentcost.writes(bench) - written).items():
        rate = number / minutes / len(nodes)
        bench.seen[f"writes of {kind} per minute and node, {name}"] = round(rate, 2)


def _full(bench: Bench) -> dict[str, object]:
    """Return a GPUProfile with as many samples and facts as it can have."""
    now = datetime(2027, 1, 1, tzinfo=UTC).strftime(_TIME)
    status = updated_status(
        GPUProfileStatus(), GPUProfileSpec(), _samples(bench), name="full", generation=1, now=now
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUProfile",
        "metadata": {"name": "full", "namespace": bench.namespace},
        "status": status.to_json(),
    }


def _samples(bench: Bench) -> list[Sample]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Sample(
            pod_uid=f"00000000-0000-0000-0000-{number:012d}",
            container="main",
            time=(start + timedelta(hours=number)).strftime(_TIME),
            seconds=600,
            source="SDK",
            micro_steps_per_second=10_000_000 - 1_000_000 * (number % 2),
            ci_permille=12,
            gpu_model="NVIDIA A100-SXM4-40GB",
            gpus=2,
            image_digest="sha256:" + "0" * 64,
            model="physical",
            effective_mb_per_s=8_000 if number % 2 else 62_000,
            best_mb_per_s=62_000,
            worst_mb_per_s=8_000,
            milli_cpu=1000 * (1 + number % 8),
            memory_bytes=2**34,
            node_neighbours=[f"{bench.namespace}/other"],
        )
        for number in range(MAX_SAMPLES)
    ]
