"""What is asked and given: refusals, shares and throughputs."""

import math
from collections.abc import Callable

import pytest

from allocations import two_speeds
from gputopo.sizing.model import (
    Resources,
    ServerCapacity,
    SizingRequest,
    proportional_share,
    proportional_throughput,
    throughput_with,
    total_capacity,
)
from gputopo_simulate.synergy.mechanisms import MECHANISMS

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
def test_what_is_no_amount_is_refused_by_name(build: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize("name", MECHANISMS)
def test_names_that_do_not_tell_apart_are_refused(name: str) -> None:
    allocate, server, request = (
        MECHANISMS[name],
        ServerCapacity("n1", 8, 24, 500),
        SizingRequest("j1", JOB),
    )
    with pytest.raises(ValueError, match="servers: none"):
        allocate([], [request])
    with pytest.raises(ValueError, match="server n1: name is used twice"):
        allocate([server, server], [request])
    with pytest.raises(ValueError, match="job j1: name is used twice"):
        allocate([server], [SizingRequest("j0", JOB), request, request])


def test_a_share_is_what_even_the_least_server_has_for_each_gpu() -> None:
    servers = [ServerCapacity("a", 8, 24, 500, 800), ServerCapacity("b", 4, 16, 200, 500)]
    assert proportional_share(servers, 2) == Resources(6, 100, 200)
    assert total_capacity(servers) == Resources(40, 700, 1300)


def test_a_job_is_as_fast_as_its_cpus_and_memory_let_it() -> None:
    request = SizingRequest("j1", JOB)
    assert throughput_with(request, Resources(18, 250, 0)) == 3
    assert throughput_with(request, Resources(17, 250, 0)) == 1
    assert throughput_with(request, Resources(5, 250, 0)) == 0
    assert proportional_throughput([ServerCapacity("n1", 8, 24, 500)], request) == 1


def test_storage_holds_a_job_up_in_proportion_once_it_is_the_least() -> None:
    request = SizingRequest("j1", JOB, 300)
    assert throughput_with(request, Resources(18, 250, 300)) == 3
    assert throughput_with(request, Resources(18, 250, 150)) == 1.5
    assert throughput_with(request, Resources(6, 125, 150)) == 1
    assert proportional_throughput([ServerCapacity("n1", 8, 24, 500, 200)], request) == 0.5
