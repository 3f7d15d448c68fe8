"""Compare the bound and the mechanisms with all possible results, on tiny clusters."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.model import ServerCapacity, SizingRequest
from gputopo_simulate.synergy.comparison.opt import upper_bound
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from support.sizing import guaranteed, throughput, total_value

TOLERANCE = 1e-5


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


def possible_sizes(
    servers: Sequence[ServerCapacity], request: SizingRequest
) -> Iterator[tuple[float, list[list[float]]]]:
    """Yield every value that keeps the guarantee, with the amounts taken of each server."""
    least = guaranteed(servers, request)
    for parts in product(range(request.gpus + 1), repeat=len(servers)):
        if sum(parts) == request.gpus:
            for cpus, memory_gb in product(request.matrix.cpus, request.matrix.memory_gb):
                speed = throughput(request, cpus, memory_gb, 0)
                if speed >= least:
                    yield (
                        speed / least,
                        [[n, n * cpus / request.gpus, n * memory_gb / request.gpus] for n in parts],
                    )


def best_total_value(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> float:
    """Return the highest sum of values of all possible results."""

    def best_of_rest(left: list[list[float]], jobs: Sequence[SizingRequest]) -> float:
        if not jobs:
            return 0.0
        best = -1e9
        for value, taken in possible_sizes(servers, jobs[0]):
            rest = [
                [has - takes for has, takes in zip(server, part, strict=True)]
                for server, part in zip(left, taken, strict=True)
            ]
            if min(map(min, rest)) >= -1e-9:
                best = max(best, value + best_of_rest(rest, jobs[1:]))
        return best

    whole = [[server.gpus, server.cpus, server.memory_gb] for server in servers]
    return best_of_rest([[float(each) for each in server] for server in whole], requests)


def front_of_queue(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]
) -> list[SizingRequest]:
    """Return the jobs at the front of the queue whose GPUs fit the cluster."""
    gpus = sum(server.gpus for server in servers)
    return [
        request
        for n, request in enumerate(requests)
        if sum(each.gpus for each in requests[: n + 1]) <= gpus
    ]


@settings(max_examples=60)
@given(servers=tiny_clusters(), queue=tiny_queues())
def test_bound_is_at_least_the_best_result_and_equal_to_it_on_one_server(
    servers: list[ServerCapacity], queue: list[SizingRequest]
) -> None:
    requests = front_of_queue(servers, queue)
    best, bound = best_total_value(servers, requests), upper_bound(servers, requests)
    assert bound >= best - TOLERANCE
    if len(servers) == 1:
        assert bound == pytest.approx(best, abs=TOLERANCE)


@pytest.mark.parametrize("name", sorted(GUARANTEE_SHARES))
@settings(max_examples=60)
@given(servers=tiny_clusters(), queue=tiny_queues())
def test_mechanism_is_between_shares_and_the_best_result(
    name: str, servers: list[ServerCapacity], queue: list[SizingRequest]
) -> None:
    requests = front_of_queue(servers, queue)
    value = total_value(servers, requests, MECHANISMS[name](servers, requests))
    best = best_total_value(servers, requests)
    assert len(requests) - TOLERANCE <= value <= best + TOLERANCE
    if name == "opt" and len(servers) == 1:
        assert value == pytest.approx(best, abs=TOLERANCE)
