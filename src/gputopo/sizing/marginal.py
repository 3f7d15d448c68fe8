"""Marginal mechanism: CPUs and memory go to the jobs whose throughput rises most with them.

Synergy-Tune gives a job either its demand or its proportional share. A size between these two often
gives most of the gain in throughput for a part of the resources. The marginal mechanism sets prices
of CPUs and memory, and the prices decide the size (:mod:`gputopo.sizing.prices`).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult, total_capacity
from gputopo.sizing.options import OptionChoice, OptionsCache
from gputopo.sizing.prices import Prices, find_prices
from gputopo.sizing.requests import check_names, runnable
from gputopo.sizing.server_state import PlacedJob, ServerState, sizing_result, total_value
from gputopo.sizing.spare import assign_spare
from gputopo.sizing.spread import PlacementOrder, place_jobs
from gputopo.sizing.swap import swap_jobs

_ACCEPTED_LOSS: Final = 0.01
"""If placement on the servers lowers the sum of values by more than this, try another order."""


def marginal(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> SizingResult:
    """Choose an option (CPUs and memory) for each job, to maximize the sum of :attr:`Option.value`.

    Arguments and result are those of :class:`SizingMechanism`. GPUs and queue order alone decide
    which jobs run. No job is slower than with its proportional share.

    1. Prices choose an option for each job, as if all servers were one server.
    2. Jobs are placed on servers, some with worse options. If the sum of values falls by more than
       1 %, the jobs are also placed in another order, and the better result is used.
    3. Spare resources go to the jobs that gain most. Two jobs with the same number of GPUs swap
       servers if one of them gets a better option and the other one keeps its option.
    """
    check_names(servers, requests)
    choices, prices = _choose_options(servers, runnable(servers, requests))
    placed = _place(servers, choices, prices, PlacementOrder.LARGEST_EXCESS)
    if total_value(placed) < (1 - _ACCEPTED_LOSS) * total_value(choices):
        other = _place(servers, choices, prices, PlacementOrder.LARGEST_GAIN)
        placed = max(placed, other, key=total_value)
    return sizing_result(requests, placed)


def _choose_options(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]
) -> tuple[list[OptionChoice], Prices]:
    cache, capacity = OptionsCache(servers), total_capacity(servers)
    jobs = [(request, cache.get(request)) for request in requests]
    prices = find_prices(Counter(options for _, options in jobs), capacity)
    merged = ServerState("all", sum(server.gpus for server in servers), capacity)
    placed = [
        PlacedJob(request, options, prices.best_option(options.efficient), [(merged, request.gpus)])
        for request, options in jobs
    ]
    assign_spare(placed, prices)
    return [OptionChoice(each.request, each.options, each.option) for each in placed], prices


def _place(
    servers: Sequence[ServerCapacity],
    choices: Sequence[OptionChoice],
    prices: Prices,
    order: PlacementOrder,
) -> list[PlacedJob]:
    states = [ServerState.idle(server) for server in servers]
    placed = place_jobs(states, choices, prices, order)
    assign_spare(placed, prices)
    target = total_value(choices)
    while total_value(placed) < target and swap_jobs(placed, states):  # ends: every swap gains
        assign_spare(placed, prices)
    return placed
