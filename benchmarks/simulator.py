"""How fast the simulator runs: one node as in the paper, and a cluster."""

import time
from collections.abc import Mapping
from typing import Final

from benchmarks.fleet import STRUCTURES
from benchmarks.options import Options
from benchmarks.table import show
from gputopo.simulate.generate import Mix, generate
from gputopo.simulate.run import Settings
from gputopo.simulate.run import run as simulate
from gputopo.topology.catalogue import named
from gputopo.topology.model import NodeTopology

_ARRIVALS_PER_NODE: Final = 0.18
"""About what nodes of 8 GPUs can serve of the paper's jobs: queues form, and empty again."""

_EVENTS_PER_JOB: Final = 3
"""It arrives, starts and ends."""


def run(options: Options) -> None:
    """Simulate three sizes of the same mix of jobs, and print how long each took."""
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
    mix = Mix(count=jobs, arrivals_per_time=_ARRIVALS_PER_NODE * nodes)
    drawn, fleet = generate(1, mix), _nodes(nodes)
    began, cpu_began = time.perf_counter(), time.process_time()
    simulate(fleet, drawn, Settings())
    return time.perf_counter() - began, time.process_time() - cpu_began


def _nodes(count: int) -> Mapping[str, NodeTopology]:
    return {
        f"n{number}": named(STRUCTURES[number % len(STRUCTURES)], node=f"n{number}")
        for number in range(count)
    }
