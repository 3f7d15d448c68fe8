"""Giving what is left to those who make most of it, and taking back what was too much."""

import math
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from gputopo.sizing.menu import Option
from gputopo.sizing.prices import Prices
from gputopo.sizing.rooms import Room, Tenant

_FREE: Final = 1e-4
"""Price of a change that costs nothing, so that more gain goes before less there too."""


def give_spare(tenants: Sequence[Tenant], prices: Prices) -> None:
    """Change jobs to options that are worth more, the most gain for its price first.

    Goes on until no change fits. What does not fit never will, as there is only less left.
    """
    heap = [step for place in range(len(tenants)) for step in _best_step(tenants, place, prices)]
    heapify(heap)
    while heap:
        _, place, option = heappop(heap)
        if tenants[place].can_change_to(option):
            tenants[place].change_to(option)
        for step in _best_step(tenants, place, prices):
            heappush(heap, step)


def _best_step(
    tenants: Sequence[Tenant], place: int, prices: Prices
) -> Iterator[tuple[float, int, Option]]:
    """Yield the best change that fits one job, as less its gain for its price; or nothing."""
    tenant = tenants[place]
    now, cost = tenant.option, prices.of(tenant.option)
    best, rate = None, 0.0
    for option in tenant.menu.better(now):
        if tenant.can_change_to(option):
            change = (option.worth - now.worth) / max(_FREE, prices.of(option) - cost + _FREE)
            if change > rate:
                best, rate = option, change
    if best is not None:
        yield -rate, place, best


def relieve(rooms: Sequence[Room], prices: Prices) -> None:
    """Bring tenants back to their least options until no server gives more than it has.

    A least option may have more of one thing than what it comes in place of, so servers
    that share a tenant are looked at too. It ends, since each tenant goes back but once.
    """
    waiting = list(rooms)
    while waiting:
        room = waiting.pop()
        if room.overdrawn:
            richer = [each for each in room.tenants if each.option is not each.menu.options[0]]
            victim = min(richer, key=lambda each: _loss(each, prices))
            victim.change_to(victim.menu.options[0])
            waiting += (room, *(other for other, _ in victim.slots))


def _loss(tenant: Tenant, prices: Prices) -> float:
    """Return what is lost with a tenant's way back to its least option, for what it frees."""
    least, now = tenant.menu.options[0], tenant.option
    freed = prices.of(now) - prices.of(least)
    return (now.worth - least.worth) / freed if freed > 0 else math.inf
