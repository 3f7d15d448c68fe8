"""Assign spare resources to the jobs that gain most; reduce jobs on overcommitted servers."""

import math
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from gputopo.sizing.options import Option
from gputopo.sizing.prices import Prices
from gputopo.sizing.server_state import PlacedJob, ServerState

_MIN_COST: Final = 1e-4
"""Least cost of a change, so that changes without a cost are ordered by their gain."""


def assign_spare(jobs: Sequence[PlacedJob], prices: Prices) -> None:
    """Change the options of jobs to better ones, as far as resources are free on their servers.

    The function divides the gain in value of each change by the cost of its additional resources.
    The change with the highest quotient is made first.
    """
    heap = [step for index in range(len(jobs)) for step in _best_change(jobs, index, prices)]
    heapify(heap)
    while heap:
        _, index, option = heappop(heap)
        if jobs[index].can_change_option(option):
            jobs[index].change_option(option)
        for step in _best_change(jobs, index, prices):
            heappush(heap, step)


def _best_change(
    jobs: Sequence[PlacedJob], index: int, prices: Prices
) -> Iterator[tuple[float, int, Option]]:
    """Yield the best change of the job that fits, if any: (minus gain per cost, index, option)."""
    job = jobs[index]
    now, cost = job.option, prices.cost_of(job.option)
    best, best_rate = None, 0.0
    for option in job.options.better_than(now):
        if job.can_change_option(option):
            more = max(_MIN_COST, prices.cost_of(option) - cost + _MIN_COST)
            rate = (option.value - now.value) / more
            if rate > best_rate:
                best, best_rate = option, rate
    if best is not None:
        yield -best_rate, index, best


def reduce_overcommitted(servers: Sequence[ServerState], prices: Prices) -> None:
    """Give jobs their :attr:`JobOptions.least` until no server is overcommitted.

    The new option of a job may need fewer CPUs but more memory than its former option. So all
    servers of a changed job are checked again. The loop ends: each job changes at most once.
    """
    to_check = list(servers)
    while to_check:
        server = to_check.pop()
        if server.is_overcommitted:
            reducible = [job for job in server.jobs if job.option is not job.options.least]
            job = min(reducible, key=lambda each: _loss(each, prices))
            job.change_option(job.options.least)
            to_check += (server, *(other for other, _ in job.slots))


def _loss(job: PlacedJob, prices: Prices) -> float:
    """Return the value that a job loses with its least option, divided by the cost it saves."""
    least, now = job.options.least, job.option
    freed = prices.cost_of(now) - prices.cost_of(least)
    return (now.value - least.value) / freed if freed > 0 else math.inf
