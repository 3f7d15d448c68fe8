"""Runs the jobs of a mix in one mode, and measures their throughput and their CPU time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, pstdev

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.tuning import ResourcesMode
from learntest.bench import Bench
from learntest.manifests import Run
from resizetest import amounts, cputime, jobs
from resizetest.cputime import CpuTime
from resizetest.manifests import Sizing
from resizetest.mixes import FLOOR_MILLI_CPU, GPUS, PORT, Mix
from showcase.kubectl import wait_for
from soaktest.client import Object

_STABLE_SECONDS = {ResourcesMode.PROPORTIONAL: 15.0, ResourcesMode.AUTO: 75.0}
"""How long the amounts have not changed before the measurement. In the mode Auto, a pod may be
resized again 60 s after its last resize."""

_LONGEST_SECONDS = 420.0
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class JobResult:
    """One job of a mix in one mode.

    Attributes:
        rates: steps per second in each window.
        limit_milli_cpu: CPU limit in effect.
        milli_cpu: mean CPU that the job has received.
        throttled: fraction of the periods of its quota in which it was throttled.
    """

    name: str
    rates: tuple[float, ...]
    limit_milli_cpu: int
    milli_cpu: float
    throttled: float

    @property
    def rate(self) -> float:
        """Steps per second; all windows are equally long."""
        return mean(self.rates)

    @property
    def spread(self) -> float:
        """Standard deviation of the rates of the windows, relative to the mean."""
        return pstdev(self.rates) / self.rate


@dataclass(frozen=True, slots=True)
class Phase:
    """The jobs of a mix in one mode.

    Attributes:
        idle: idle fraction of the machine's CPUs during the measurement.
    """

    jobs: tuple[JobResult, ...]
    idle: float


@dataclass(frozen=True, slots=True)
class _Count:
    steps: int
    at: float


def run(
    bench: Bench, node: str, mix: Mix, mode: ResourcesMode, windows: Sequence[float], name: str
) -> Phase:
    """Run the jobs until gputopo resizes them no more, measure them, and end them.

    Args:
        bench: of the experiment.
        node: where they run.
        mix: the jobs.
        mode: of all jobs.
        windows: length of each measurement in seconds.
        name: prefix of their names.
    """
    runs = _runs(mix, node, name)
    jobs.start(bench, *((each, Sizing(mode)) for each in runs))
    began = time.monotonic()
    names = [each.name for each in runs]
    limits = _stable_limits(bench, names, _STABLE_SECONDS[mode])
    seconds = time.monotonic() - began
    bench.report(f"{name}: limits {limits} after {seconds:.0f} s")
    phase = _measure(bench, node, names, windows)
    if (now := _limits(bench, names)) != limits:
        bench.finding("resized during the measurement", f"{name}: {limits}, then {now}")
    bench.end(names)
    return phase


def _runs(mix: Mix, node: str, name: str) -> list[Run]:
    return [
        Run(
            f"{name}-{number}-{workload.name}",
            {**workload.law, "seed": 100 + number},
            node,
            gpus=GPUS,
            milli_cpu=FLOOR_MILLI_CPU,
            measuring=MeasuringRequest(profile=workload.name),
        )
        for number, workload in enumerate(mix.workloads)
    ]


def _stable_limits(bench: Bench, names: Sequence[str], stable_seconds: float) -> list[int]:
    """Return the CPU limits when they have not changed for some seconds."""
    last, since = _limits(bench, names), time.monotonic()

    def stable() -> list[int] | None:
        nonlocal last, since
        if (now := _limits(bench, names)) != last:
            last, since = now, time.monotonic()
        return last if time.monotonic() - since >= stable_seconds else None

    return wait_for(
        f"limits of {', '.join(names)} do not change",
        stable,
        timeout_s=_LONGEST_SECONDS,
        interval_s=_LOOK_SECONDS,
    )


def _limits(bench: Bench, names: Sequence[str]) -> list[int]:
    return [jobs.limits_of(bench, name).milli_cpu for name in names]


def _measure(bench: Bench, node: str, names: Sequence[str], windows: Sequence[float]) -> Phase:
    pods = [_pod(bench, name) for name in names]
    machine, cpu = cputime.machine(), cputime.of_pods(bench.machines, node)
    counts = [[_count(bench, pod) for pod in pods]]
    for window in windows:
        time.sleep(window)
        counts.append([_count(bench, pod) for pod in pods])
    after, idle = (
        cputime.of_pods(bench.machines, node),
        cputime.idle_of_machine(machine, cputime.machine()),
    )
    found = [
        _result(name, pod, own, cpu[pod["metadata"]["uid"]], after[pod["metadata"]["uid"]])
        for name, pod, own in zip(names, pods, zip(*counts, strict=True), strict=True)
    ]
    return Phase(tuple(found), idle)


def _result(
    name: str, pod: Object, counts: Sequence[_Count], before: CpuTime, after: CpuTime
) -> JobResult:
    rates = [
        (later.steps - earlier.steps) / (later.at - earlier.at)
        for earlier, later in pairwise(counts)
    ]
    return JobResult(
        name,
        tuple(rates),
        amounts.read(pod).limits.milli_cpu,
        after.milli_cpu_since(before),
        after.throttled_since(before),
    )


def _count(bench: Bench, pod: Object) -> _Count:
    return _Count(bench.steps_of(pod["metadata"]["name"], PORT), time.monotonic())


def _pod(bench: Bench, job: str) -> Object:
    pod = bench.pod_of(job)
    if pod is None:
        raise TimeoutError(f"the pod of {job} is gone")
    return pod
