"""What it brings to choose for each job which kind of GPU it runs on (Synergy, appendix A.2)."""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks.contention import SIZES, measured
from benchmarks.options import Options
from benchmarks.table import show
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.heterogeneous import MixedAsk, heterogeneous
from gputopo.sizing.model import Ask, Grant, Server, proportional_throughput
from gputopo.sizing.proportional import proportional

_INSTANCES: Final = 60
_SERVERS: Final = (1, 2, 4, 8)
_GPUS, _OLD_CPUS, _NEW_CPUS, _MEMORY_GB = 8, 24, 48, 500
_FASTER: Final = 2.0
"""How many times as fast the new GPUs are, where it is the GPU that a job waits for."""

Kinds = Mapping[str, Sequence[Server]]
Way = Callable[[Kinds, Sequence[MixedAsk]], Sequence[Grant]]


def run(options: Options) -> None:
    """Allocate on clusters of two kinds, and print throughputs relative to the promised ones."""
    ways: Mapping[str, Way] = {
        "proportional, kinds as they come": _shares,
        "opt, kinds as they come": _best_of_each,
        "opt, kinds chosen (A.2)": lambda kinds, asks: heterogeneous(kinds, asks).grants,
    }
    worth: dict[str, list[float]] = {name: [] for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(3 if options.quick else _INSTANCES):
        kinds, asks = _mixed(number)
        promised = {ask.job: ask.fair_throughput for ask in asks}
        for name, way in ways.items():
            began = time.process_time()
            grants = way(kinds, asks)
            seconds[name].append(time.process_time() - began)
            total = sum(grant.throughput / promised[grant.job] for grant in grants)
            worth[name].append(total / len(asks))
    rows = [
        [
            name,
            *(f"{value:.2f}" for value in (statistics.mean(own), min(own), max(own))),
            f"{statistics.median(seconds[name]) * 1e3:.1f}",
        ]
        for name, own in worth.items()
    ]
    head = ["allocation", "mean", "least", "most", "CPU ms"]
    show("Two kinds of GPUs: throughput relative to the promised one, per job", head, rows)


def _mixed(number: int) -> tuple[Kinds, list[MixedAsk]]:
    """Return as many old as new servers, and jobs that ask for all their GPUs.

    What is promised is the throughput with the proportional share of the old ones.
    """
    draw = random.Random(number)  # noqa: S311 - instances, not secrets
    count = draw.choice(_SERVERS)
    kinds = {
        kind: [Server(f"{kind}{name}", _GPUS, cpus, _MEMORY_GB) for name in range(count)]
        for kind, cpus in (("old", _OLD_CPUS), ("new", _NEW_CPUS))
    }
    asks: list[MixedAsk] = []
    for _ in kinds:  # each kind's GPUs are asked for on their own: no job is split over kinds
        free = count * _GPUS
        while free:
            size = min(draw.choices(list(SIZES), list(SIZES.values()))[0], free)
            old = draw.choice(list(measured().values())).scaled_to(size)
            fair = proportional_throughput(kinds["old"], Ask("", old))
            asks.append(MixedAsk(f"j{len(asks)}", {"old": old, "new": _on_new(old)}, fair))
            free -= size
    return kinds, asks


def _on_new(old: SensitivityMatrix) -> SensitivityMatrix:
    """Return a job's matrix on GPUs that are faster.

    Where it waited for the GPU, its CPUs now limit it, and beyond the knee of the old curve
    they do in proportion. Where CPUs or memory limited it, nothing changes.
    """
    columns = []
    for column in zip(*old.throughput, strict=True):
        knee = old.cpus[column.index(column[-1])]
        waits_for_gpu = column[-1] == old.best
        columns.append(
            [
                value * min(_FASTER, cpus / knee) if waits_for_gpu and cpus >= knee else value
                for cpus, value in zip(old.cpus, column, strict=True)
            ]
        )
    return SensitivityMatrix.rising(
        old.gpus, old.cpus, old.memory_gb, list(zip(*columns, strict=True))
    )


def _as_they_come(kinds: Kinds, asks: Sequence[MixedAsk]) -> dict[str, list[MixedAsk]]:
    """Return who runs on which kind, each on the first one that has GPUs left."""
    free = {kind: sum(server.gpus for server in servers) for kind, servers in kinds.items()}
    homes: dict[str, list[MixedAsk]] = {kind: [] for kind in kinds}
    for ask in asks:
        kind = next(kind for kind, gpus in free.items() if gpus >= ask.gpus)
        free[kind] -= ask.gpus
        homes[kind].append(ask)
    return homes


def _shares(kinds: Kinds, asks: Sequence[MixedAsk]) -> list[Grant]:
    """Return what jobs have that take kinds as they come, and the share of their GPUs there."""
    return [
        grant
        for kind, own in _as_they_come(kinds, asks).items()
        for grant in proportional(
            kinds[kind], [Ask(ask.job, ask.matrices[kind]) for ask in own]
        ).grants
    ]


def _best_of_each(kinds: Kinds, asks: Sequence[MixedAsk]) -> list[Grant]:
    """Return what jobs have that take kinds as they come, and the best of each kind."""
    return [
        grant
        for kind, own in _as_they_come(kinds, asks).items()
        for grant in heterogeneous({kind: kinds[kind]}, own).grants
    ]
