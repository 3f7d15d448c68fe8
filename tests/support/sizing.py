"""Random servers and requests, and checks that every result of sizing must pass.

The checks compute throughputs and shares independently of ``gputopo.sizing``.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult

TOLERANCE = 1e-6


def matrix(
    gpus: int,
    cpus: Sequence[float],
    memory_gb: Sequence[float],
    *rows: Sequence[float],
) -> SensitivityMatrix:
    return SensitivityMatrix(gpus, tuple(cpus), tuple(memory_gb), tuple(map(tuple, rows)), gpus)


def two_speeds(
    gpus: int, share: tuple[float, float], best: tuple[float, float], speed_up: float
) -> SensitivityMatrix:
    """Return a matrix of 1 with the share of CPUs and memory, and ``speed_up`` with the best."""
    cpus, memory_gb = sorted({share[0], best[0]}), sorted({share[1], best[1]})
    rows = [[speed_up if c >= best[0] and m >= best[1] else 1.0 for m in memory_gb] for c in cpus]
    return SensitivityMatrix.rising(gpus, cpus, memory_gb, rows)


def amounts(most: float) -> st.SearchStrategy[float]:
    return st.one_of(
        st.integers(1, int(most)).map(float),
        st.floats(0.1, most, allow_nan=False).map(lambda value: round(value, 3)),
    )


@st.composite
def matrices(draw: st.DrawFn, most_gpus: int = 12) -> SensitivityMatrix:
    """Draw any monotone matrix; with little CPU or memory a job may not run at all."""
    gpus = draw(st.integers(1, most_gpus))
    cpus = sorted(draw(st.sets(amounts(12.0 * gpus), min_size=1, max_size=4)))
    memory_gb = sorted(draw(st.sets(amounts(200.0 * gpus), min_size=1, max_size=3)))
    speeds = st.one_of(st.just(0.0), st.floats(0.01, 9))
    row = st.lists(speeds, min_size=len(memory_gb), max_size=len(memory_gb))
    rows = draw(st.lists(row, min_size=len(cpus), max_size=len(cpus)))
    rows[-1][-1] = max(rows[-1][-1], 0.01)
    return SensitivityMatrix.rising(gpus, cpus, memory_gb, rows)


@st.composite
def clusters(draw: st.DrawFn, *, equal: bool) -> list[ServerCapacity]:
    """Draw servers, all equal or each of its own size."""
    count = draw(st.integers(1, 5))
    storage = draw(st.booleans())

    def server(name: int) -> ServerCapacity:
        return ServerCapacity(
            f"s{name}",
            draw(st.integers(1, 8)),
            draw(amounts(64)),
            draw(amounts(1000)),
            draw(amounts(2000)) if storage else math.inf,
        )

    if not equal:
        return [server(name) for name in range(count)]
    first = server(0)
    size = (first.gpus, first.cpus, first.memory_gb, first.storage_mb_per_s)
    return [ServerCapacity(f"s{name}", *size) for name in range(count)]


@st.composite
def queues(draw: st.DrawFn) -> list[SizingRequest]:
    """Draw jobs of a few models, some of which read from storage."""
    models = draw(st.lists(matrices(), min_size=1, max_size=6))
    reads = st.one_of(st.just(0.0), st.floats(1, 500))
    pairs = [(each, draw(reads)) for each in models]
    drawn = draw(st.lists(st.sampled_from(pairs), max_size=25))
    return [SizingRequest(f"j{number}", *pair) for number, pair in enumerate(drawn)]


def throughput(request: SizingRequest, cpus: float, memory_gb: float, storage: float) -> float:
    """Return a job's throughput by a search of all points of its matrix."""
    rounding = 1 + 1e-9
    by_matrix = max(
        (
            value
            for c, row in zip(request.matrix.cpus, request.matrix.throughput, strict=True)
            for m, value in zip(request.matrix.memory_gb, row, strict=True)
            if c <= cpus * rounding and m <= memory_gb * rounding
        ),
        default=0.0,
    )
    if request.storage_mb_per_s <= storage:
        return by_matrix
    best = request.matrix.throughput[-1][-1]
    return min(by_matrix, best * storage / request.storage_mb_per_s)


def guaranteed(servers: Iterable[ServerCapacity], request: SizingRequest) -> float:
    """Return a job's throughput with the smallest share that its GPUs have on any server."""
    parts = [
        (
            server.cpus * request.gpus / server.gpus,
            server.memory_gb * request.gpus / server.gpus,
            server.storage_mb_per_s * request.gpus / server.gpus,
        )
        for server in servers
    ]
    return throughput(request, *(min(amounts) for amounts in zip(*parts, strict=True)))


def total_value(
    servers: Sequence[ServerCapacity], requests: Iterable[SizingRequest], result: SizingResult
) -> float:
    """Return the sum of the jobs' throughputs, each relative to its guaranteed throughput."""
    by_job = {request.job: request for request in requests}
    return sum(
        each.throughput / guaranteed(servers, by_job[each.job]) for each in result.assignments
    )


def jobs_that_run(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> set[str]:
    """Return the jobs whose GPUs are free in queue order; only jobs that do not fit are passed."""
    chosen: set[str] = set()
    for request in requests:
        taken = sum(each.gpus for each in requests if each.job in chosen)
        if taken + request.gpus <= sum(server.gpus for server in servers):
            chosen.add(request.job)
    return chosen


def check_capacity(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest], result: SizingResult
) -> None:
    """Check that each job occurs once, has its exact GPUs, and no server is overcommitted."""
    by_job = {request.job: request for request in requests}
    ran = [assignment.job for assignment in result.assignments]
    assert ran == [request.job for request in requests if request.job in set(ran)]
    assert list(result.waiting) == [
        request.job for request in requests if request.job not in set(ran)
    ]
    taken = {server.name: [0.0, 0.0, 0.0, 0.0] for server in servers}
    for assignment in result.assignments:
        request = by_job[assignment.job]
        assert sum(part.gpus for part in assignment.parts) == request.gpus
        assert max(Counter(part.server for part in assignment.parts).values()) == 1
        for part in assignment.parts:
            assert part.gpus > 0
            for which, amount in enumerate(part[1:]):
                taken[part.server][which] += amount
            each = [amount / part.gpus for amount in part[2:]]
            first = [amount / assignment.parts[0].gpus for amount in assignment.parts[0][2:]]
            assert all(map(math.isclose, each, first))
        total = [sum(each) for each in zip(*(part[2:] for part in assignment.parts), strict=True)]
        assert math.isclose(assignment.throughput, throughput(request, *total), rel_tol=1e-9)
    for server in servers:
        capacity = (server.gpus, server.cpus, server.memory_gb, server.storage_mb_per_s)
        for amount, most in zip(taken[server.name], capacity, strict=True):
            assert -TOLERANCE <= amount <= most + TOLERANCE


def check_guarantees(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest], result: SizingResult
) -> None:
    """Check that queue order decides which jobs run, and none is slower than with its share."""
    by_job = {request.job: request for request in requests}
    assert {each.job for each in result.assignments} == jobs_that_run(servers, requests)
    for each in result.assignments:
        assert each.throughput >= guaranteed(servers, by_job[each.job]) * (1 - 1e-9)
