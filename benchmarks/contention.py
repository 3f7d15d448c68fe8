"""Random clusters on which CPUs or memory do not suffice for what jobs would have at best."""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import gputopo_simulate.synergy
from gputopo.sensitivity.demand import saturating_demand
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.model import ServerCapacity, SizingRequest
from gputopo_simulate.synergy.measured import parse_matrices

_SERVERS: Final = (1, 2, 3, 4, 6, 8, 12, 16)
_GPUS, _CPUS, _MEMORY_GB = 8, 24, 500

SIZES: Final = {1: 70, 2: 10, 4: 15, 8: 5}
"""GPUs of a job, and how many of a hundred have them, as in Synergy's multi-GPU traces."""

_CONTENTION: Final = 1.3
"""At their best the jobs use at least this multiple of the CPUs or of the memory."""

_CPU_AXIS: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24)
_MEMORY_AXIS: Final = (20, 40, 62.5, 90, 125, 187.5, 250)


def contended(number: int) -> tuple[list[ServerCapacity], list[SizingRequest]]:
    """Return an instance of 8 to 128 GPUs, all of which are requested; equal for equal numbers.

    Jobs are of the models that Synergy's authors measured and of a few generated ones, in
    a mix that differs from instance to instance.
    """
    draw = random.Random(number)  # noqa: S311 - instances, not secrets
    count = draw.choice(_SERVERS)
    servers = [ServerCapacity(f"s{name}", _GPUS, _CPUS, _MEMORY_GB) for name in range(count)]
    sizes = draw.choice(({1: 1}, SIZES, SIZES))
    while True:
        pool = draw.sample(list(measured().values()), draw.randint(2, 8))
        pool += [_generated(draw) for _ in range(draw.randint(0, 5))]
        requests = _requests(draw, pool, sizes, count * _GPUS)
        if _scarcity(servers, requests) >= _CONTENTION:
            return servers, requests


@cache
def measured() -> Mapping[str, SensitivityMatrix]:
    """Return the matrices of one GPU that Synergy's authors measured, by model."""
    table = (
        Path(gputopo_simulate.synergy.__file__).with_name("data") / "synergy_throughput_matrix.csv"
    )
    return parse_matrices(table.read_text("utf-8"))


def _generated(draw: random.Random) -> SensitivityMatrix:
    """Return a job as fast as the slowest of its GPU, its CPUs and what feeds them."""
    gpu, per_cpu = draw.uniform(1, 4), draw.uniform(0.1, 1.5)
    dataset_gb, storage = draw.choice((20, 100, 200, 400)), draw.uniform(0.3, 1.5)
    rows = [
        [
            min(gpu, per_cpu * cpus, storage / max(1 - memory_gb / dataset_gb, 0.01))
            for memory_gb in _MEMORY_AXIS
        ]
        for cpus in _CPU_AXIS
    ]
    return SensitivityMatrix.rising(1, _CPU_AXIS, _MEMORY_AXIS, rows)


def _requests(
    draw: random.Random,
    pool: Sequence[SensitivityMatrix],
    sizes: Mapping[int, int],
    gpus: int,
) -> list[SizingRequest]:
    """Return jobs that request exactly this number of GPUs."""
    scaled = {
        (place, size): each.scaled_to(size) for place, each in enumerate(pool) for size in SIZES
    }
    requests: list[SizingRequest] = []
    while gpus:
        size = draw.choices(list(sizes), list(sizes.values()))[0]
        size = size if size <= gpus else 1
        requests.append(SizingRequest(f"j{len(requests)}", scaled[draw.randrange(len(pool)), size]))
        gpus -= size
    return requests


def _scarcity(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> float:
    """Return what jobs would have at best, as a part of what there is of it."""
    best = [saturating_demand(request.matrix) for request in requests]
    return max(
        sum(each.cpus for each in best) / sum(server.cpus for server in servers),
        sum(each.memory_gb for each in best) / sum(server.memory_gb for server in servers),
    )
