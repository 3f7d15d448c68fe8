"""How near allocations come to Synergy-Opt's bound, and how long each takes."""

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from benchmarks.contention import contended
from benchmarks.options import Options
from benchmarks.table import show
from gputopo.sizing.model import (
    ServerCapacity,
    SizingRequest,
    SizingResult,
    proportional_throughput,
)
from gputopo_cli.synergy.experiment import prepare_experiment
from gputopo_cli.synergy.options import QueueOptions
from gputopo_simulate.synergy.comparison.opt import upper_bound
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from gputopo_simulate.synergy.run import servers_of

_INSTANCES: Final = 600
_SIZES: Final = (range(8, 33), range(33, 65), range(65, 129))


class Shot(NamedTuple):
    """What one allocation made of one instance, and in which time of the processor."""

    gpus: int
    gap: float
    seconds: float


def run(options: Options) -> None:
    """Allocate on random instances, and print gaps to the bound and times beside Opt's."""
    shots = _shots(contended(number) for number in range(6 if options.quick else _INSTANCES))
    _show(f"Allocations against Opt's bound, {len(shots['opt'])} instances", shots)
    sizes = [
        [f"{size[0]} to {size[-1]}", *(_gap_of_size(own, size) for own in shots.values())]
        for size in _SIZES
    ]
    show("Mean gap by GPUs of the cluster", ["GPUs", *shots], sizes)
    title = "The paper's mix, once: 128 jobs of one GPU, split 20, 70, 10"
    _show(title, _shots([_papers_mix()]))


def _shots(
    instances: Iterable[tuple[Sequence[ServerCapacity], Sequence[SizingRequest]]],
) -> dict[str, list[Shot]]:
    shots: dict[str, list[Shot]] = {name: [] for name in sorted(GUARANTEE_SHARES)}
    for servers, requests in instances:
        bound = upper_bound(servers, requests)
        for name, own in shots.items():
            own.append(_shot(name, servers, requests, bound))
    return shots


def _papers_mix() -> tuple[Sequence[ServerCapacity], Sequence[SizingRequest]]:
    """Return the servers of Synergy's figure 9, and jobs for all of their GPUs."""
    ready = prepare_experiment(QueueOptions(generate=128))
    requests = [SizingRequest(str(job.id), job.model.matrix(job.gpus)) for job in ready.jobs]
    return servers_of(ready.cluster), requests


def _show(title: str, shots: Mapping[str, Sequence[Shot]]) -> None:
    rows = [
        [name, *_gaps(own), *_times(own, shots["opt"])]
        for name, own in sorted(shots.items(), key=lambda each: -_mean_gap(each[1]))
    ]
    head = ["allocation", "mean gap", "95 of 100", "worst", "CPU ms", "of 128 GPUs", "Opt / it"]
    show(title, head, rows)


def _shot(
    name: str, servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest], bound: float
) -> Shot:
    began = time.process_time()
    result = MECHANISMS[name](servers, requests)
    seconds = time.process_time() - began
    gap = max(
        0.0, 1 - _relative_throughput(servers, requests, result) / bound
    )  # the solver's bound may be slightly too low
    return Shot(sum(server.gpus for server in servers), gap, seconds)


def _relative_throughput(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest], result: SizingResult
) -> float:
    """Return the sum of throughputs, each relative to that of the proportional share."""
    shares = {request.job: proportional_throughput(servers, request) for request in requests}
    return sum(each.throughput / shares[each.job] for each in result.assignments)


def _mean_gap(shots: Sequence[Shot]) -> float:
    return statistics.mean(shot.gap for shot in shots)


def _gaps(shots: Sequence[Shot]) -> list[str]:
    gaps = sorted(shot.gap for shot in shots)
    return [
        f"{value:.2%}" for value in (statistics.mean(gaps), gaps[len(gaps) * 19 // 20], gaps[-1])
    ]


def _times(shots: Sequence[Shot], opt: Sequence[Shot]) -> list[str]:
    largest = max(shot.gpus for shot in shots)
    times = [
        statistics.median(shot.seconds for shot in shots),
        statistics.median(shot.seconds for shot in shots if shot.gpus == largest),
    ]
    ratio = sum(shot.seconds for shot in opt) / sum(shot.seconds for shot in shots)
    return [*(f"{seconds * 1e3:.2f}" for seconds in times), f"{ratio:.0f}"]


def _gap_of_size(shots: Sequence[Shot], gpus: range) -> str:
    gaps = [shot.gap for shot in shots if shot.gpus in gpus]
    return f"{statistics.mean(gaps):.2%}" if gaps else "-"
