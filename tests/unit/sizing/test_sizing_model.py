"""Requests and servers: rejected input, shares and throughputs."""

import math
from collections.abc import Callable

import pytest

from gputopo.errors import InvalidInputError
from gputopo.sizing.model import (
    ResourceAmounts,
    ServerCapacity,
    SizingRequest,
    proportional_share,
    proportional_throughput,
    throughput_with,
    total_capacity,
)
from gputopo_simulate.synergy.mechanisms import MECHANISMS
from support.sizing import two_speeds

JOB = two_speeds(2, (6, 125), (18, 250), 3.0)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ServerCapacity("n1", 0, 24, 500), "server n1: gpus: 0; must be at least 1"),
        (lambda: ServerCapacity("n1", 8, 0, 500), "server n1: cpus: 0; must be more than 0"),
        (lambda: ServerCapacity("n1", 8, math.nan, 500), "server n1: cpus: nan"),
        (lambda: ServerCapacity("n1", 8, math.inf, 500), "server n1: cpus: inf"),
        (lambda: ServerCapacity("n1", 8, 24, 2e7), "memory_gb: 20000000.0; must be .* at most 1e"),
        (lambda: ServerCapacity("n1", 8, 24, 500, -1), "server n1: storage_mb_per_s: -1"),
        (
            lambda: SizingRequest("j1", JOB, -1),
            "job j1: storage_mb_per_s: -1; must be finite and at least 0",
        ),
        (lambda: SizingRequest("j1", JOB, math.inf), "job j1: storage_mb_per_s: inf"),
    ],
)
def test_amount_out_of_range_is_rejected(build: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        build()


@pytest.mark.parametrize("name", MECHANISMS)
def test_double_names_are_rejected(name: str) -> None:
    mechanism, server, request = (
        MECHANISMS[name],
        ServerCapacity("n1", 8, 24, 500),
        SizingRequest("j1", JOB),
    )
    with pytest.raises(InvalidInputError, match="servers: the list is empty"):
        mechanism([], [request])
    with pytest.raises(InvalidInputError, match="server n1: the name is used twice"):
        mechanism([server, server], [request])
    with pytest.raises(InvalidInputError, match="job j1: the name is used twice"):
        mechanism([server], [SizingRequest("j0", JOB), request, request])


def test_proportional_share_is_that_of_the_smallest_server() -> None:
    servers = [ServerCapacity("a", 8, 24, 500, 800), ServerCapacity("b", 4, 16, 200, 500)]
    assert proportional_share(servers, 2) == ResourceAmounts(6, 100, 200)
    assert total_capacity(servers) == ResourceAmounts(40, 700, 1300)


def test_cpus_and_memory_limit_throughput() -> None:
    request = SizingRequest("j1", JOB)
    assert throughput_with(request, ResourceAmounts(18, 250, 0)) == 3
    assert throughput_with(request, ResourceAmounts(17, 250, 0)) == 1
    assert throughput_with(request, ResourceAmounts(5, 250, 0)) == 0
    assert proportional_throughput([ServerCapacity("n1", 8, 24, 500)], request) == 1


def test_storage_bandwidth_limits_throughput_in_proportion() -> None:
    request = SizingRequest("j1", JOB, 300)
    assert throughput_with(request, ResourceAmounts(18, 250, 300)) == 3
    assert throughput_with(request, ResourceAmounts(18, 250, 150)) == 1.5
    assert throughput_with(request, ResourceAmounts(6, 125, 150)) == 1
    assert proportional_throughput([ServerCapacity("n1", 8, 24, 500, 200)], request) == 0.5
