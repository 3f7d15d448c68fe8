"""The CPU curve that gputopo measures by resizing, against the rate at every number of CPUs."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.profile import CpuFact
from gputopo.api.profiling import ProfilingState
from gputopo.profiling.grid import CpuGrid
from gputopo.sensitivity.planner import interpolated
from learntest import laws
from learntest.bench import Bench
from learntest.experiment import Options
from learntest.manifests import Run
from learntest.measured import wait_measured
from showcase.kubectl import wait_for
from soaktest.client import Object

_PORT = 9090
_MILLI_CPU = 400
_WINDOW_SECONDS = 12.0
_PAUSE_SECONDS = 4.0
_PASSES = 2
_LIMIT_SECONDS = 1800
_MEDIAN, _WORST = 0.05, 0.15


def carry_out(bench: Bench, options: Options) -> None:
    """Measure one job as its user requests, then at every number of CPUs, and compare."""
    node = bench.node_with(lambda kinds: any(kind.startswith("NVSwitch") for kind in kinds))
    run = _run(node)
    bench.start(run)
    state, fact = wait_measured(bench, run, _LIMIT_SECONDS)
    bench.report(f"measured by gputopo: {state.result}: {state.message}; {fact}")
    _report_cost(bench, run, state)
    grid = CpuGrid(state.original, state.most_milli_cpu, run.gpus)
    truth = _exhaustive(bench, run, grid, options)
    _compare(bench, fact, truth)
    bench.end([run.name])


def errors(fact: CpuFact, truth: Mapping[int, float]) -> dict[int, float]:
    """Return the relative error of the interpolated curve by CPU limit."""
    points = {point.milli_cpu: point.micro_steps_per_second / 1e6 for point in fact.points}
    curve = interpolated(points)
    return {limit: curve[limit] / rate - 1 for limit, rate in truth.items() if limit in curve}


def _run(node: str) -> Run:
    law = laws.cpu_law(3, seconds=0.04, workers=4, images=32) | {"port": _PORT}
    request = MeasuringRequest(
        profile="decoder", targets=("CPUs",), profiling_seconds=_LIMIT_SECONDS
    )
    return Run("decoder", law, node, gpus=1, milli_cpu=_MILLI_CPU, measuring=request)


def _pod(bench: Bench, run: Run) -> Object:
    pod = bench.pod_of(run.name)
    if pod is None:
        raise TimeoutError(f"the pod of {run.name} is gone")
    return pod


def _report_cost(bench: Bench, run: Run, state: ProfilingState) -> None:
    pod = _pod(bench, run)
    restarts = pod["status"]["containerStatuses"][0]["restartCount"]
    resources = pod["status"]["containerStatuses"][0]["resources"]
    bench.seen["result"] = f"{state.result}: {state.message}"
    bench.seen["points measured by gputopo"] = sorted(each.milli_cpu for each in state.points)
    bench.seen["seconds at other CPU limits"] = sum(each.seconds for each in state.points)
    bench.seen["restarts of the container"] = restarts
    bench.seen["resources afterwards"] = resources
    if restarts or resources["limits"]["cpu"] != f"{_MILLI_CPU}m":
        bench.finding("pods changed", f"{restarts} restarts, {resources}")


def _exhaustive(bench: Bench, run: Run, grid: CpuGrid, options: Options) -> dict[int, float]:
    """Return the rate by CPU limit: the median of two passes, each in a random order.

    The rate is that of the job's own counter, so nothing of gputopo takes part.
    """
    plan = grid.plan
    limits = [grid.amounts(units).limit for units in range(plan.least_cpus, plan.most_cpus + 1)]
    rng = random.Random(options.seed)  # noqa: S311 - repeatable on purpose
    found: dict[int, list[float]] = {limit: [] for limit in limits}
    for _ in range(options.rounds or _PASSES):
        for limit in rng.sample(limits, len(limits)):
            found[limit].append(_rate(bench, run, limit, options.seconds or _WINDOW_SECONDS))
    bench.report(f"exhaustive: {found}")
    return {limit: median(rates) for limit, rates in found.items()}


def _rate(bench: Bench, run: Run, milli_cpu: int, seconds: float) -> float:
    pod = _pod(bench, run)
    name = pod["metadata"]["name"]
    bench.resize(pod, milli_cpu)
    wait_for(f"{milli_cpu}m are applied", lambda: _applied(bench, run, milli_cpu))
    time.sleep(_PAUSE_SECONDS)
    steps, began = bench.steps_of(name, _PORT), time.monotonic()
    time.sleep(seconds)
    return (bench.steps_of(name, _PORT) - steps) / (time.monotonic() - began)


def _applied(bench: Bench, run: Run, milli_cpu: int) -> bool:
    status = _pod(bench, run)["status"]["containerStatuses"][0]
    return bool(status["resources"]["limits"]["cpu"] == f"{milli_cpu}m")


def _compare(bench: Bench, fact: CpuFact, truth: Mapping[int, float]) -> None:
    found = errors(fact, truth)
    sizes = sorted(map(abs, found.values()))
    bench.seen["CPU limits compared"] = len(found)
    bench.seen["median error"] = median(sizes)
    bench.seen["worst error"] = sizes[-1]
    bench.seen["demand"] = f"{fact.demand_milli_cpu}m"
    bench.seen["curve"] = "; ".join(_lines(truth, found))
    if median(sizes) > _MEDIAN or sizes[-1] > _WORST:
        bench.finding("wrong curves", f"median {median(sizes):.3f}, worst {sizes[-1]:.3f}")
    if missing := sorted(truth.keys() - found.keys()):
        bench.finding("wrong curves", f"no value at {missing}")


def _lines(truth: Mapping[int, float], found: Mapping[int, float]) -> Iterator[str]:
    for limit in _in_order(truth):
        error = f"{found[limit]:+.1%}" if limit in found else "-"
        yield f"{limit}m: {truth[limit]:.1f}/s, {error}"


def _in_order(truth: Mapping[int, float]) -> Sequence[int]:
    return sorted(truth)
