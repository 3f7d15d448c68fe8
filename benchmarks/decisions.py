"""Time of one decision on one node, by topology, pattern and size; figure 19 of the paper."""

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.drawing import Line, draw
from benchmarks.measure import Timing, joined, microseconds, milliseconds, timed
from benchmarks.options import Options
from benchmarks.table import show
from gputopo.catalogue import named
from gputopo.patterns.model import Pattern, PatternEdge, PatternKind, build, custom
from gputopo.placement.model import PlacementRequest
from gputopo.placement.place import place, ranking
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.topology.tables import TABLES

TOPOLOGIES: Final = ("dgx1-v100", "summit", "dgx-a100", "torus-2d-16", "cubemesh-16", "dgx-2")
QUICK_TOPOLOGIES: Final = ("dgx1-v100",)

_RELEASED_NAMES: Final = {
    "dgx1-v100": "dgx-v",
    "summit": "summit",
    "torus-2d-16": "torus-2d",
    "cubemesh-16": "cubeMesh-16",
}
_RELEASED: Final = Path(__file__).parent / "data" / "mapa_overhead_ms.csv"
_MASKS: Final = 100
_COLD_TIMES: Final = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """Times of one decision.

    Attributes:
        cold: the tables of the pattern and the size are built first.
        unseen: the tables exist, but not the result for these free GPUs.
        seen: the same was asked before.
    """

    topology: str
    pattern: Pattern
    cold: Timing
    unseen: Timing
    seen: Timing


def run(options: Options) -> None:
    """Measure every pattern and size, print the times, and draw those of rings if requested."""
    topologies = QUICK_TOPOLOGIES if options.quick else TOPOLOGIES
    costs = list(measured(topologies, masks=3 if options.quick else _MASKS))
    _show_patterns(costs)
    _show_released(costs)
    if options.plot is not None:
        draw(_lines(costs), options.plot)


def measured(topologies: tuple[str, ...], *, masks: int) -> Iterator[Cost]:
    """Measure each pattern in each size on each topology; the policy is preserve, sensitive."""
    place(named("summit"), GpuMask(1), _request(build(PatternKind.RING, 1)))
    for name, kind in product(topologies, PatternKind):
        topology = named(name)
        for size in range(2 if kind is PatternKind.CUSTOM else 1, len(topology.gpus) + 1):
            yield _cost(name, topology, pattern_of(kind, size), masks)


def released_ms() -> dict[tuple[str, int], float]:
    """Return the times of the authors' program by topology (gputopo's name) and size."""
    ours = {theirs: name for name, theirs in _RELEASED_NAMES.items()}
    lines = [line for line in _RELEASED.read_text().splitlines() if not line.startswith("#")]
    return {
        (ours[row["topology"]], int(row["job_gpus"])): float(
            row["no_sleep_ms"] or row["as_released_ms"]
        )
        for row in csv.DictReader(lines)
    }


def _cost(name: str, topology: NodeTopology, pattern: Pattern, masks: int) -> Cost:
    request = _request(pattern)

    def uncached(free: GpuMask) -> None:
        """Do what ``place`` does without a cached result."""
        ranking(topology, free, request, most=1)

    cold = timed(lambda: uncached(topology.mask), times=_COLD_TIMES, before=TABLES.clear)
    unseen, seen = [], []
    for free in _free_sets(topology, pattern.size, masks):
        unseen.append(timed(partial(uncached, free), times=1))
        again = partial(place, topology, free, request)
        again()
        seen.append(timed(again, times=1))
    return Cost(name, pattern, cold, joined(unseen), joined(seen))


def _free_sets(topology: NodeTopology, size: int, count: int) -> Iterator[GpuMask]:
    """Generate sets of enough free GPUs, beginning with the idle node."""
    draw = random.Random(size)  # noqa: S311 - repeatable, not secret
    gpus = [gpu.index for gpu in topology.gpus]
    yield topology.mask
    for _ in range(count - 1):
        free = draw.sample(gpus, draw.randint(size, len(gpus)))
        yield GpuMask(sum(1 << index for index in free))


def _request(pattern: Pattern) -> PlacementRequest:
    return PlacementRequest(pattern, sensitive=True)


def pattern_of(kind: PatternKind, size: int) -> Pattern:
    """Return the pattern of this kind that the benchmarks use."""
    if kind is not PatternKind.CUSTOM:
        return build(kind, size)
    # A ring of uneven weights: no two ranks are equal, which is the most expensive pattern.
    edges = [PatternEdge(rank, rank + 1, 1 + rank % 3) for rank in range(size - 1)]
    return custom(size, [*edges, PatternEdge(0, size - 1, 5)])


def _show_patterns(costs: list[Cost]) -> None:
    rows = []
    for name, kind in dict.fromkeys((cost.topology, cost.pattern.kind) for cost in costs):
        sizes = [it for it in costs if (it.topology, it.pattern.kind) == (name, kind)]
        cold = max(sizes, key=lambda cost: cost.cold.cpu)
        unseen = max(sizes, key=lambda cost: cost.unseen.cpu)
        seen = max(sizes, key=lambda cost: cost.seen.median).seen
        rows.append(
            [
                f"{name} {kind}",
                f"{cold.pattern.size}",
                *(milliseconds(cold.cold.median), milliseconds(cold.cold.cpu)),
                f"{unseen.pattern.size}",
                *(microseconds(it) for it in (unseen.unseen.median, unseen.unseen.p99)),
                microseconds(unseen.unseen.cpu),
                *(microseconds(seen.median), microseconds(seen.p99)),
                f"{cold.cold.cpu / unseen.unseen.cpu:,.0f}",
            ]
        )
    head = ["dearest size", "of", "cold ms", "CPU", "of", "unseen us", "p99", "CPU"]
    show(
        "One decision, preserve, sensitive: the dearest of all sizes",
        [*head, "seen us", "p99", "cold/unseen"],
        rows,
    )


def _show_released(costs: list[Cost]) -> None:
    released = released_ms()
    rows = []
    for cost in costs:
        theirs = released.get((cost.topology, cost.pattern.size))
        if cost.pattern.kind is PatternKind.RING and cost.topology in _RELEASED_NAMES:
            rows.append([f"{cost.topology} ring of {cost.pattern.size}", *_beside(cost, theirs)])
    head = ["Fig. 19", "theirs ms", "cold ms", "ratio", "unseen us", "ratio", "seen us", "ratio"]
    show("Beside the authors' program (one process, idle node; - did not end)", head, rows)


def _lines(costs: list[Cost]) -> list[Line]:
    """Return times of rings by size: gputopo's in three states, and the authors' program's."""
    rings = [cost for cost in costs if cost.pattern.kind is PatternKind.RING]
    released = released_ms()
    lines: list[Line] = []
    for name in dict.fromkeys(cost.topology for cost in rings):
        of_this = [cost for cost in rings if cost.topology == name]
        lines += [
            Line(name, "cold", [(it.pattern.size, it.cold.median) for it in of_this]),
            Line(name, "unseen", [(it.pattern.size, it.unseen.median) for it in of_this]),
            Line(name, "seen", [(it.pattern.size, it.seen.median) for it in of_this]),
        ]
        theirs = [(size, ms / 1000) for (server, size), ms in released.items() if server == name]
        lines.append(Line(name, "MAPA's program", theirs))
    return lines


def _beside(cost: Cost, theirs_ms: float | None) -> list[str]:
    theirs = None if theirs_ms is None else theirs_ms / 1000
    cells = ["-" if theirs is None else milliseconds(theirs)]
    for timing, shown in (
        (cost.cold, milliseconds),
        (cost.unseen, microseconds),
        (cost.seen, microseconds),
    ):
        cells.append(shown(timing.median))
        cells.append("-" if theirs is None else f"{theirs / timing.median:,.0f}")
    return cells
