"""Mixes of jobs on one node: sum of normalised throughput in the mode Auto, and its prediction."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.profile import CpuFact, GPUProfileStatus
from gputopo.api.tuning import ResourcesMode
from learntest import profiles
from learntest.bench import Bench
from learntest.experiment import Options
from learntest.manifests import Run
from resizetest import amounts, jobs, learning, manifests, phase, prediction, weight
from resizetest.gain import Comparison
from resizetest.mixes import (
    CAPACITY_MILLI_CPU,
    GPUS,
    NODE_GPUS,
    Mix,
    Workload,
    measured_together,
)
from resizetest.recorder import recording
from showcase.kubectl import wait_for
from soaktest import namespace

_MODES = (ResourcesMode.PROPORTIONAL, ResourcesMode.AUTO, ResourcesMode.PROPORTIONAL)
_WINDOW_SECONDS = 20.0
_WINDOWS = 4
_FILLER = "filler"
_MEASURING_SECONDS = 1200
_END_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the mixes run.

    Attributes:
        profiles: exported GPUProfiles, for the simulator.
        windows: lengths of the measurements of one mode in seconds.
    """

    node: str
    profiles: Path
    windows: tuple[float, ...]


def carry_out(mix: Mix, bench: Bench, options: Options) -> None:
    """Measure the curves, then run the mix proportional, in the mode Auto, proportional, ..."""
    node = options.node or _node(bench)
    windows = (options.seconds or _WINDOW_SECONDS,) * _WINDOWS
    place = _Place(node, bench.journal.log.with_suffix(".profiles.json"), windows)
    with (
        weight.preferred(bench.machines.cgroup(node)),
        recording(bench.client, bench.journal, node) as recorder,
    ):
        _fill(bench, node)
        facts = _learnt(bench, place, options)
        _run(bench, place, mix, facts, options.rounds or 1)
    jobs.check_restarts(bench, recorder.timeline)


def _learnt(bench: Bench, place: _Place, options: Options) -> dict[str, CpuFact]:
    """Return the CPU curve of each workload, by name; write the GPUProfiles for the simulator."""
    groups = [[_measured(each, place.node) for each in group] for group in measured_together()]
    curves = {}
    for name, status in learning.learnt(bench, groups, options.profiles).items():
        bench.publish(name, status)
        fact = profiles.cpu_fact(GPUProfileStatus.model_validate(status), GPUS)
        if fact is None:
            raise TimeoutError(f"no CPU curve of {name} with {GPUS} GPUs")
        curves[name] = fact
    place.profiles.write_text(json.dumps({"kind": "List", "items": bench.profiles()}))
    return curves


def _measured(workload: Workload, node: str) -> Run:
    request = MeasuringRequest(
        profile=workload.name, targets=("CPUs",), profiling_seconds=_MEASURING_SECONDS
    )
    name, milli_cpu = f"measured-{workload.name}", workload.milli_cpu
    return Run(name, workload.law, node, GPUS, milli_cpu, measuring=request)


def _node(bench: Bench) -> str:
    """Return the first node with as many GPUs as the mixes need."""
    return min(name for name, spec in bench.topologies.items() if len(spec["gpus"]) == NODE_GPUS)


def _fill(bench: Bench, node: str) -> None:
    """Let a pod request all CPUs of the node except those of the mixes.

    It replaces the pod of an earlier call: pods of gputopo may have come or left since then.
    """
    path = f"{bench.pods}/{_FILLER}"
    bench.client.delete(path)
    wait_for("the former filler is gone", lambda: not namespace.exists(bench.client, path))
    free = _free_milli_cpu(bench, node) - CAPACITY_MILLI_CPU
    if free < 0:
        raise TimeoutError(
            f"{node}: has {free + CAPACITY_MILLI_CPU}m CPU, needs {CAPACITY_MILLI_CPU}m"
        )
    made = manifests.filler(_FILLER, node, free, bench.installed.workload_image)
    bench.client.create(bench.pods, made)
    wait_for("the filler runs", lambda: jobs.is_running(bench, _FILLER))


def _free_milli_cpu(bench: Bench, node: str) -> int:
    """Return the CPUs of the node that no pod requests."""
    pods = bench.client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
    used = sum(amounts.read(pod).counted.milli_cpu for pod in pods if amounts.holds(pod))
    return amounts.allocatable(bench.client.get(f"/api/v1/nodes/{node}")).milli_cpu - used


def _run(bench: Bench, place: _Place, mix: Mix, facts: Mapping[str, CpuFact], rounds: int) -> None:
    decided = prediction.predicted(mix, facts)
    simulated = prediction.simulated(place.profiles.parent, mix, facts, place.profiles)
    limits = [target.amounts.milli_cpu for target in decided]
    bench.report(f"mix {mix.name}: predicted limits {limits}")
    _fill(bench, place.node)
    phases = [
        phase.run(bench, place.node, mix, mode, place.windows, f"{mix.name}-{number}")
        for number, mode in enumerate([_MODES[0], *_MODES[1:] * rounds])
    ]
    found = Comparison(mix, phases[::2], phases[1::2], decided, simulated)
    for name, line in found.lines().items():
        bench.seen[name] = line
        bench.report(f"{name}: {line}")
    for error in found.errors():
        bench.finding("gains", f"mix {mix.name}: {error}")
    # Pods of a job that ended may hold CPUs for some seconds.
    wait_for(
        f"{CAPACITY_MILLI_CPU}m CPU are free as before the mix",
        lambda: _free_milli_cpu(bench, place.node) == CAPACITY_MILLI_CPU,
        timeout_s=_END_SECONDS,
    )
