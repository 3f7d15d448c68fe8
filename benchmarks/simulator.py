"""How fast the simulators run: those of MAPA, Synergy and the SC '17 paper."""

import time
from collections.abc import Mapping
from typing import Final

from benchmarks.fleet import TOPOLOGIES
from benchmarks.options import Options
from benchmarks.table import show
from gputopo.catalogue import named
from gputopo.topology.model import NodeTopology
from gputopo_cli.sc17.experiment import prepare_experiment as prepare_caffe
from gputopo_cli.sc17.options import CaffeOptions
from gputopo_cli.synergy.experiment import RunRequest, prepare_experiment
from gputopo_cli.synergy.options import QueueOptions
from gputopo_simulate.mapa.generate import generate
from gputopo_simulate.mapa.run import MapaSettings
from gputopo_simulate.mapa.run import run as simulate
from gputopo_simulate.sc17.policies import PAPER_POLICIES
from gputopo_simulate.sc17.report import decision_times

_ARRIVALS_PER_NODE: Final = 0.18
"""About the capacity of a node of 8 GPUs for the paper's jobs: queues form and empty again."""

_EVENTS_PER_JOB: Final = 3
"""It arrives, starts and ends."""


_QUEUES: Final = (
    RunRequest("fifo", "proportional", as_released=False),
    RunRequest("fifo", "tune", as_released=True),
    RunRequest("fifo", "tune", as_released=False),
    RunRequest("srtf", "tune", as_released=False),
    RunRequest("fifo", "marginal", as_released=False),
    RunRequest("srtf", "marginal", as_released=False),
)


def run(options: Options) -> None:
    """Run all simulators, and print how long they took."""
    _nodes_and_links(options)
    _queues(options)
    _neighbours(options)


def _neighbours(options: Options) -> None:
    """Simulate the second scenario of the SC '17 paper, and measure each decision."""
    jobs, machines = (50, 5) if options.quick else (10_000, 1_000)
    rows = []
    for rate in (10.0, 2_000.0):
        caffe = CaffeOptions(
            generate=jobs, machines=machines, jobs_per_minute=rate, decision_times=True
        )
        for policy in PAPER_POLICIES:
            began, cpu_began = time.perf_counter(), time.process_time()
            result = prepare_caffe(caffe).run(policy)
            took = time.perf_counter() - began, time.process_time() - cpu_began
            times = decision_times(result)
            shown = [f"{each:.3f}" for each in (times.p50_ms, times.p99_ms)] if times else []
            rows.append([policy, f"{rate:g}", *(f"{seconds:.1f}" for seconds in took), *shown])
    head = ["policy", "jobs/min", "seconds", "of the processor", "decision p50 ms", "p99 ms"]
    show(f"SC '17's simulator: {jobs:,} jobs on {machines:,} machines", head, rows)


def _queues(options: Options) -> None:
    """Simulate Synergy's 128 GPUs at 9 jobs an hour, including reading the list and the models."""
    jobs = 50 if options.quick else 5000
    rows = []
    for request in _QUEUES:
        began, cpu_began = time.perf_counter(), time.process_time()
        prepare_experiment(QueueOptions(generate=jobs)).run(request)
        took = time.perf_counter() - began, time.process_time() - cpu_began
        rows.append([request.order, request.name, *(f"{seconds:.1f}" for seconds in took)])
    head = ["order", "allocation", "seconds", "of the processor"]
    show(f"Synergy's simulator: 128 GPUs, {jobs} jobs, 9 an hour", head, rows)


def _nodes_and_links(options: Options) -> None:
    """Simulate three sizes of the same mix of jobs."""
    cases = [(1, 300), (100, 3_000), (1_000, 10_000)]
    if options.quick:
        cases = [(1, 10), (3, 30)]
    head = ["nodes", "jobs", "seconds", "events/s", "CPU us/event", "to one node"]
    rows: list[list[str]] = []
    first = 0.0
    for nodes, jobs in cases:
        seconds, cpu = _took(nodes, jobs)
        events = jobs * _EVENTS_PER_JOB
        first = first or cpu / events
        rows.append(
            [
                f"{nodes:,}",
                *(f"{jobs:,}", f"{seconds:.2f}", f"{events / seconds:,.0f}"),
                *(f"{cpu / events * 1e6:,.0f}", f"{cpu / events / first:.1f}"),
            ]
        )
    show("Simulator: preserve, first in first out", head, rows)


def _took(nodes: int, jobs: int) -> tuple[float, float]:
    """Return the seconds of a simulation on the clock and of the processor, tables included."""
    drawn, fleet = generate(1, jobs, _ARRIVALS_PER_NODE * nodes), _nodes(nodes)
    began, cpu_began = time.perf_counter(), time.process_time()
    simulate(fleet, drawn, MapaSettings())
    return time.perf_counter() - began, time.process_time() - cpu_began


def _nodes(count: int) -> Mapping[str, NodeTopology]:
    return {
        f"n{number}": named(TOPOLOGIES[number % len(TOPOLOGIES)], node=f"n{number}")
        for number in range(count)
    }
