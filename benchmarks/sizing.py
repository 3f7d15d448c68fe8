"""How near sizing mechanisms come to Synergy-Opt's bound, and the CPU time of each."""

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
from gputopo_simulate.synergy.active import servers_of
from gputopo_simulate.synergy.comparison.opt import upper_bound
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS

_INSTANCES: Final = 600
_SIZES: Final = (range(8, 33), range(33, 65), range(65, 129))


class SizingSample(NamedTuple):
    """One mechanism on one instance: its gap to the bound, and CPU seconds."""

    gpus: int
    gap: float
    seconds: float


def run(options: Options) -> None:
    """Run all mechanisms on random instances; print gaps to the bound and times relative to Opt."""
    samples = _samples(contended(number) for number in range(6 if options.quick else _INSTANCES))
    _show(f"Allocations against Opt's bound, {len(samples['opt'])} instances", samples)
    sizes = [
        [f"{size[0]} to {size[-1]}", *(_gap_of_size(own, size) for own in samples.values())]
        for size in _SIZES
    ]
    show("Mean gap by GPUs of the cluster", ["GPUs", *samples], sizes)
    title = "The paper's mix, once: 128 jobs of one GPU, split 20, 70, 10"
    _show(title, _samples([_papers_mix()]))


def _samples(
    instances: Iterable[tuple[Sequence[ServerCapacity], Sequence[SizingRequest]]],
) -> dict[str, list[SizingSample]]:
    samples: dict[str, list[SizingSample]] = {name: [] for name in sorted(GUARANTEE_SHARES)}
    for servers, requests in instances:
        bound = upper_bound(servers, requests)
        for name, own in samples.items():
            own.append(_sample(name, servers, requests, bound))
    return samples


def _papers_mix() -> tuple[Sequence[ServerCapacity], Sequence[SizingRequest]]:
    """Return the servers of Synergy's figure 9, and jobs for all of their GPUs."""
    ready = prepare_experiment(QueueOptions(generate=128))
    requests = [SizingRequest(str(job.id), job.model.matrix(job.gpus)) for job in ready.jobs]
    return servers_of(ready.cluster), requests


def _show(title: str, samples: Mapping[str, Sequence[SizingSample]]) -> None:
    rows = [
        [name, *_gaps(own), *_times(own, samples["opt"])]
        for name, own in sorted(samples.items(), key=lambda each: -_mean_gap(each[1]))
    ]
    head = ["allocation", "mean gap", "95 of 100", "worst", "CPU ms", "of 128 GPUs", "Opt / it"]
    show(title, head, rows)


def _sample(
    name: str, servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest], bound: float
) -> SizingSample:
    began = time.process_time()
    result = MECHANISMS[name](servers, requests)
    seconds = time.process_time() - began
    value = _relative_throughput(servers, requests, result)
    gap = max(0.0, 1 - value / bound)  # the solver's bound may be slightly too low
    return SizingSample(sum(server.gpus for server in servers), gap, seconds)


def _relative_throughput(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest], result: SizingResult
) -> float:
    """Return the sum of throughputs, each relative to that of the proportional share."""
    shares = {request.job: proportional_throughput(servers, request) for request in requests}
    return sum(each.throughput / shares[each.job] for each in result.assignments)


def _mean_gap(samples: Sequence[SizingSample]) -> float:
    return statistics.mean(each.gap for each in samples)


def _gaps(samples: Sequence[SizingSample]) -> list[str]:
    gaps = sorted(each.gap for each in samples)
    return [
        f"{value:.2%}" for value in (statistics.mean(gaps), gaps[len(gaps) * 19 // 20], gaps[-1])
    ]


def _times(samples: Sequence[SizingSample], opt: Sequence[SizingSample]) -> list[str]:
    largest = max(each.gpus for each in samples)
    times = [
        statistics.median(each.seconds for each in samples),
        statistics.median(each.seconds for each in samples if each.gpus == largest),
    ]
    ratio = sum(each.seconds for each in opt) / sum(each.seconds for each in samples)
    return [*(f"{seconds * 1e3:.2f}" for seconds in times), f"{ratio:.0f}"]


def _gap_of_size(samples: Sequence[SizingSample], gpus: range) -> str:
    gaps = [each.gap for each in samples if each.gpus in gpus]
    return f"{statistics.mean(gaps):.2%}" if gaps else "-"
