"""Marginal mechanism: CPUs and memory go to the jobs whose throughput rises most with them.

Synergy-Tune uses only two points of a job's matrix: its demand and its share. Points between them
often give most of the gain for a part of the resources. Prices of the resources decide which point
each job gets (:mod:`gputopo.sizing.prices`).
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
"""If placement on single servers loses more than this part of the value, try another order."""


def marginal(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> SizingResult:
    """Give each job an option, so that the sum of the options' values is as high as possible.

    See :class:`SizingMechanism`. GPUs and queue order decide which jobs run, as in
    :func:`~gputopo.sizing.tune.tune`, and no job is slower than with its proportional share.

    1. Prices choose an option for each job, as if all servers were one server.
    2. Jobs are spread over servers so that these options fit. If much value is lost, they are
       placed again in another order, and the better result is used.
    3. Spare resources go to the jobs that gain most. Two jobs with the same number of GPUs swap
       servers if one of them gets a better option.
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
    """Return an option for each job, as if all servers were one, and the prices."""
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
    """Place the jobs, assign spare resources, swap jobs, and return the placed jobs."""
    states = [ServerState.idle(server) for server in servers]
    placed = place_jobs(states, choices, prices, order)
    assign_spare(placed, prices)
    target = total_value(choices)
    while total_value(placed) < target and swap_jobs(placed, states):  # ends: every swap gains
        assign_spare(placed, prices)
    return placed
