"""On tiny clusters every outcome there is can be tried: none is better than the bound says, no
allocation better than the best of them."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocations import promised, speed
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.model import ServerCapacity, SizingRequest
from gputopo_simulate.synergy.comparison.opt import upper_bound
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS

HAIR = 1e-5


@st.composite
def tiny_clusters(draw: st.DrawFn) -> list[ServerCapacity]:
    gpus = draw(st.integers(2, 3))
    cpus, memory_gb = draw(st.integers(gpus, 12)), draw(st.integers(gpus, 12))
    return [
        ServerCapacity(f"s{name}", gpus, cpus, memory_gb) for name in range(draw(st.integers(1, 2)))
    ]


@st.composite
def tiny_queues(draw: st.DrawFn) -> list[SizingRequest]:
    """Draw jobs that run with 1 CPU and 1 GB for each GPU, so with any share."""
    requests = []
    for number in range(draw(st.integers(1, 4))):
        gpus = draw(st.integers(1, 2))
        cpus, memory_gb = (
            [1, *sorted(draw(st.sets(st.integers(2, 9), max_size=2)))] for _ in range(2)
        )
        row = st.lists(
            st.integers(1, 20).map(float), min_size=len(memory_gb), max_size=len(memory_gb)
        )
        rows = draw(st.lists(row, min_size=len(cpus), max_size=len(cpus)))
        one = SensitivityMatrix.rising(1, cpus, memory_gb, rows)
        requests.append(SizingRequest(f"j{number}", one.scaled_to(gpus)))
    return requests


def ways(
    servers: Sequence[ServerCapacity], request: SizingRequest
) -> Iterator[tuple[float, list[list[float]]]]:
    """Yield every relative throughput that keeps the promise, and what it takes of each server."""
    least = promised(servers, request)
    for parts in product(range(request.gpus + 1), repeat=len(servers)):
        if sum(parts) == request.gpus:
            for cpus, memory_gb in product(request.matrix.cpus, request.matrix.memory_gb):
                fast = speed(request, cpus, memory_gb, 0)
                if fast >= least:
                    yield (
                        fast / least,
                        [[n, n * cpus / request.gpus, n * memory_gb / request.gpus] for n in parts],
                    )


def best_of_all(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> float:
    """Return the most that relative throughputs can sum up to, by trying everything."""

    def tried(left: list[list[float]], jobs: Sequence[SizingRequest]) -> float:
        if not jobs:
            return 0.0
        best = -1e9
        for worth, taken in ways(servers, jobs[0]):
            rest = [
                [has - takes for has, takes in zip(room, part, strict=True)]
                for room, part in zip(left, taken, strict=True)
            ]
            if min(map(min, rest)) >= -1e-9:
                best = max(best, worth + tried(rest, jobs[1:]))
        return best

    whole = [[server.gpus, server.cpus, server.memory_gb] for server in servers]
    return tried([[float(each) for each in room] for room in whole], requests)


def fit(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]
) -> list[SizingRequest]:
    """Return as many of the jobs, from the front, as there are GPUs for."""
    gpus = sum(server.gpus for server in servers)
    return [
        request
        for n, request in enumerate(requests)
        if sum(each.gpus for each in requests[: n + 1]) <= gpus
    ]


@settings(max_examples=60)
@given(servers=tiny_clusters(), queue=tiny_queues())
def test_the_bound_is_no_less_than_the_best_there_is_and_that_itself_on_one_server(
    servers: list[ServerCapacity], queue: list[SizingRequest]
) -> None:
    requests = fit(servers, queue)
    best, bound = best_of_all(servers, requests), upper_bound(servers, requests)
    assert bound >= best - HAIR
    if len(servers) == 1:
        assert bound == pytest.approx(best, abs=HAIR)


@pytest.mark.parametrize("name", sorted(GUARANTEE_SHARES))
@settings(max_examples=60)
@given(servers=tiny_clusters(), queue=tiny_queues())
def test_no_allocation_is_better_than_the_best_there_is_nor_worse_than_shares(
    name: str, servers: list[ServerCapacity], queue: list[SizingRequest]
) -> None:
    requests = fit(servers, queue)
    outcome = MECHANISMS[name](servers, requests)
    by_job = {request.job: request for request in requests}
    worth = sum(
        each.throughput / promised(servers, by_job[each.job]) for each in outcome.assignments
    )
    assert len(requests) - HAIR <= worth <= best_of_all(servers, requests) + HAIR
    if name == "opt" and len(servers) == 1:
        assert worth == pytest.approx(best_of_all(servers, requests), abs=HAIR)
