"""Value that mechanisms lose to the bound of Synergy-Opt where CPUs or memory are scarce."""

from functools import cache
from statistics import mean

import pytest

from benchmarks.contention import contended
from gputopo.sensitivity.demand import saturating_demand
from gputopo.sizing.model import ServerCapacity, SizingRequest
from gputopo_simulate.synergy.comparison.opt import upper_bound
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from support.sizing import check_capacity, check_guarantees, total_value

INSTANCES = 150


@cache
def instance(number: int) -> tuple[list[ServerCapacity], list[SizingRequest], float]:
    servers, requests = contended(number)
    return servers, requests, upper_bound(servers, requests)


def gap(name: str, number: int) -> float:
    """Return the part of the bound that a mechanism does not reach, after checking its result."""
    servers, requests, bound = instance(number)
    result = MECHANISMS[name](servers, requests)
    check_capacity(servers, requests, result)
    check_guarantees(servers, requests, result)
    value = total_value(servers, requests, result)
    assert value <= bound + 1e-6
    return 1 - value / bound


@cache
def gaps(name: str) -> list[float]:
    return [gap(name, number) for number in range(INSTANCES)]


def test_instances_have_8_to_128_gpus_all_requested_and_too_few_cpus_or_memory() -> None:
    sizes = set()
    for number in range(INSTANCES):
        servers, requests, _ = instance(number)
        gpus = sum(server.gpus for server in servers)
        assert sum(request.gpus for request in requests) == gpus
        best = [saturating_demand(request.matrix) for request in requests]
        assert sum(each.cpus for each in best) >= 1.3 * sum(
            server.cpus for server in servers
        ) or sum(each.memory_gb for each in best) >= 1.3 * sum(
            server.memory_gb for server in servers
        )
        sizes.add(gpus)
    assert (min(sizes), max(sizes)) == (8, 128)


def test_marginal_loses_less_than_3_percent_on_average_and_less_than_a_fifth_at_worst() -> None:
    assert mean(gaps("marginal")) < 0.03
    assert max(gaps("marginal")) < 0.2


@pytest.mark.parametrize("name", sorted(GUARANTEE_SHARES - {"marginal"}))
def test_marginal_loses_less_than_any_other_mechanism_that_guarantees_shares(name: str) -> None:
    assert mean(gaps("marginal")) < mean(gaps(name))


def test_tune_loses_less_than_proportional() -> None:
    assert mean(gaps("tune")) < mean(gaps("proportional"))
