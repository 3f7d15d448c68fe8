"""Random clusters and jobs for allocations, and what any outcome must keep, by other means."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult

HAIR = 1e-6


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
    """Return a job that runs at 1 with its share of CPUs and memory, and faster with its best."""
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
    """Draw any monotone matrix, of jobs that do not run at all with little as well."""
    gpus = draw(st.integers(1, most_gpus))
    cpus = sorted(draw(st.sets(amounts(12.0 * gpus), min_size=1, max_size=4)))
    memory_gb = sorted(draw(st.sets(amounts(200.0 * gpus), min_size=1, max_size=3)))
    speeds = st.one_of(st.just(0.0), st.floats(0.01, 9))
    row = st.lists(speeds, min_size=len(memory_gb), max_size=len(memory_gb))
    rows = draw(st.lists(row, min_size=len(cpus), max_size=len(cpus)))
    rows[-1][-1] = max(rows[-1][-1], 0.01)
    return SensitivityMatrix.rising(gpus, cpus, memory_gb, rows)


@st.composite
def clusters(draw: st.DrawFn, *, alike: bool) -> list[ServerCapacity]:
    """Draw servers, of one size or of any."""
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

    if not alike:
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


def speed(request: SizingRequest, cpus: float, memory_gb: float, storage: float) -> float:
    """Return a job's throughput with so much, by looking at every point."""
    hair = 1 + 1e-9
    fed = max(
        (
            value
            for c, row in zip(request.matrix.cpus, request.matrix.throughput, strict=True)
            for m, value in zip(request.matrix.memory_gb, row, strict=True)
            if c <= cpus * hair and m <= memory_gb * hair
        ),
        default=0.0,
    )
    if request.storage_mb_per_s <= storage:
        return fed
    return min(fed, request.matrix.throughput[-1][-1] * storage / request.storage_mb_per_s)


def promised(servers: Iterable[ServerCapacity], request: SizingRequest) -> float:
    """Return a job's throughput with the least that its GPUs have by right on any server."""
    parts = [
        (
            server.cpus * request.gpus / server.gpus,
            server.memory_gb * request.gpus / server.gpus,
            server.storage_mb_per_s * request.gpus / server.gpus,
        )
        for server in servers
    ]
    return speed(request, *(min(amounts) for amounts in zip(*parts, strict=True)))


def whose_turn(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> set[str]:
    """Return the jobs that GPUs suffice for, in their order, passing by only whom they do not."""
    chosen: set[str] = set()
    for request in requests:
        taken = sum(each.gpus for each in requests if each.job in chosen)
        if taken + request.gpus <= sum(server.gpus for server in servers):
            chosen.add(request.job)
    return chosen


def check_books(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest], outcome: SizingResult
) -> None:
    """Every job once, in order; its GPUs exactly and all alike; no server beyond what it has."""
    by_job = {request.job: request for request in requests}
    ran = [grant.job for grant in outcome.assignments]
    assert ran == [request.job for request in requests if request.job in set(ran)]
    assert list(outcome.waiting) == [
        request.job for request in requests if request.job not in set(ran)
    ]
    taken = {server.name: [0.0, 0.0, 0.0, 0.0] for server in servers}
    for grant in outcome.assignments:
        request = by_job[grant.job]
        assert sum(part.gpus for part in grant.parts) == request.gpus
        assert max(Counter(part.server for part in grant.parts).values()) == 1
        for part in grant.parts:
            assert part.gpus > 0
            for which, amount in enumerate(part[1:]):
                taken[part.server][which] += amount
            each = [amount / part.gpus for amount in part[2:]]
            first = [amount / grant.parts[0].gpus for amount in grant.parts[0][2:]]
            assert all(map(math.isclose, each, first))
        whole = [sum(each) for each in zip(*(part[2:] for part in grant.parts), strict=True)]
        assert math.isclose(grant.throughput, speed(request, *whole), rel_tol=1e-9)
    for server in servers:
        there_is = (server.gpus, server.cpus, server.memory_gb, server.storage_mb_per_s)
        for amount, most in zip(taken[server.name], there_is, strict=True):
            assert -HAIR <= amount <= most + HAIR


def check_promises(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest], outcome: SizingResult
) -> None:
    """All run whose turn it is, and none slower than with its share."""
    by_job = {request.job: request for request in requests}
    assert {grant.job for grant in outcome.assignments} == whose_turn(servers, requests)
    for grant in outcome.assignments:
        assert grant.throughput >= promised(servers, by_job[grant.job]) * (1 - 1e-9)
