"""How much throughput is lost to the bound of Synergy-Opt, where CPUs or memory are scarce."""

from functools import cache
from statistics import mean

import pytest

from allocations import check_books, check_promises, promised
from benchmarks.contention import contended
from gputopo.sensitivity.demand import saturating_demand
from gputopo.sizing.model import Ask, Server
from gputopo_simulate.synergy.comparison.opt import upper_bound
from gputopo_simulate.synergy.mechanisms import ALLOCATIONS, KEEP_SHARES

INSTANCES = 150


@cache
def instance(number: int) -> tuple[list[Server], list[Ask], float]:
    servers, asks = contended(number)
    return servers, asks, upper_bound(servers, asks)


def gap(name: str, number: int) -> float:
    """Return the part of the bound that an allocation does not reach; check all it promises."""
    servers, asks, bound = instance(number)
    outcome = ALLOCATIONS[name](servers, asks)
    check_books(servers, asks, outcome)
    check_promises(servers, asks, outcome)
    by_job = {ask.job: ask for ask in asks}
    worth = sum(each.throughput / promised(servers, by_job[each.job]) for each in outcome.grants)
    assert worth <= bound + 1e-6
    return 1 - worth / bound


@cache
def gaps(name: str) -> list[float]:
    return [gap(name, number) for number in range(INSTANCES)]


def test_the_instances_are_of_8_to_128_gpus_all_asked_for_and_scarce_in_cpus_or_memory() -> None:
    sizes = set()
    for number in range(INSTANCES):
        servers, asks, _ = instance(number)
        gpus = sum(server.gpus for server in servers)
        assert sum(ask.gpus for ask in asks) == gpus
        best = [saturating_demand(ask.matrix) for ask in asks]
        assert sum(each.cpus for each in best) >= 1.3 * sum(
            server.cpus for server in servers
        ) or sum(each.memory_gb for each in best) >= 1.3 * sum(
            server.memory_gb for server in servers
        )
        sizes.add(gpus)
    assert (min(sizes), max(sizes)) == (8, 128)


def test_marginal_loses_less_than_3_percent_in_the_mean_and_less_than_a_fifth_at_worst() -> None:
    assert mean(gaps("marginal")) < 0.03
    assert max(gaps("marginal")) < 0.2


@pytest.mark.parametrize("name", sorted(KEEP_SHARES - {"marginal"}))
def test_marginal_loses_less_than_any_other_that_keeps_shares(name: str) -> None:
    assert mean(gaps("marginal")) < mean(gaps(name))


def test_tune_is_better_than_shares() -> None:
    assert mean(gaps("tune")) < mean(gaps("proportional"))
