"""On tiny clusters every outcome there is can be tried: none is better than the bound says, no
allocation better than the best of them."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocations import promised, speed
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.model import Ask, Server
from gputopo_simulate.synergy.comparison.opt import upper_bound
from gputopo_simulate.synergy.mechanisms import ALLOCATIONS, KEEP_SHARES

HAIR = 1e-5


@st.composite
def tiny_clusters(draw: st.DrawFn) -> list[Server]:
    gpus = draw(st.integers(2, 3))
    cpus, memory_gb = draw(st.integers(gpus, 12)), draw(st.integers(gpus, 12))
    return [Server(f"s{name}", gpus, cpus, memory_gb) for name in range(draw(st.integers(1, 2)))]


@st.composite
def tiny_queues(draw: st.DrawFn) -> list[Ask]:
    """Draw jobs that run with 1 CPU and 1 GB for each GPU, so with any share."""
    asks = []
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
        asks.append(Ask(f"j{number}", one.scaled_to(gpus)))
    return asks


def ways(servers: Sequence[Server], ask: Ask) -> Iterator[tuple[float, list[list[float]]]]:
    """Yield every relative throughput that keeps the promise, and what it takes of each server."""
    least = promised(servers, ask)
    for parts in product(range(ask.gpus + 1), repeat=len(servers)):
        if sum(parts) == ask.gpus:
            for cpus, memory_gb in product(ask.matrix.cpus, ask.matrix.memory_gb):
                fast = speed(ask, cpus, memory_gb, 0)
                if fast >= least:
                    yield (
                        fast / least,
                        [[n, n * cpus / ask.gpus, n * memory_gb / ask.gpus] for n in parts],
                    )


def best_of_all(servers: Sequence[Server], asks: Sequence[Ask]) -> float:
    """Return the most that relative throughputs can sum up to, by trying everything."""

    def tried(left: list[list[float]], jobs: Sequence[Ask]) -> float:
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
    return tried([[float(each) for each in room] for room in whole], asks)


def fit(servers: Sequence[Server], asks: Sequence[Ask]) -> list[Ask]:
    """Return as many of the jobs, from the front, as there are GPUs for."""
    gpus = sum(server.gpus for server in servers)
    return [ask for n, ask in enumerate(asks) if sum(each.gpus for each in asks[: n + 1]) <= gpus]


@settings(max_examples=60)
@given(servers=tiny_clusters(), queue=tiny_queues())
def test_the_bound_is_no_less_than_the_best_there_is_and_that_itself_on_one_server(
    servers: list[Server], queue: list[Ask]
) -> None:
    asks = fit(servers, queue)
    best, bound = best_of_all(servers, asks), upper_bound(servers, asks)
    assert bound >= best - HAIR
    if len(servers) == 1:
        assert bound == pytest.approx(best, abs=HAIR)


@pytest.mark.parametrize("name", sorted(KEEP_SHARES))
@settings(max_examples=60)
@given(servers=tiny_clusters(), queue=tiny_queues())
def test_no_allocation_is_better_than_the_best_there_is_nor_worse_than_shares(
    name: str, servers: list[Server], queue: list[Ask]
) -> None:
    asks = fit(servers, queue)
    outcome = ALLOCATIONS[name](servers, asks)
    by_job = {ask.job: ask for ask in asks}
    worth = sum(each.throughput / promised(servers, by_job[each.job]) for each in outcome.grants)
    assert len(asks) - HAIR <= worth <= best_of_all(servers, asks) + HAIR
    if name == "opt" and len(servers) == 1:
        assert worth == pytest.approx(best_of_all(servers, asks), abs=HAIR)
