"""A Tune that uses the whole matrix: CPUs and memory go where they add most throughput.

Synergy-Tune knows two speeds of a job, at its demand and at its share. Between them lie
points that give most of the gain for part of the cost, and which of them to take depends
on what CPUs and memory are worth to all others.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gputopo.sizing.menu import Menus, Target
from gputopo.sizing.model import Ask, Outcome, Server, whole_capacity
from gputopo.sizing.prices import Prices, prices_of
from gputopo.sizing.rooms import Room, Tenant, checked, outcome, runnable
from gputopo.sizing.spare import give_spare
from gputopo.sizing.spread import First, settle
from gputopo.sizing.swap import swap

_LOSS: Final = 0.01
"""Part of the targets' worth that may be lost on servers, before another order is tried."""


def marginal(servers: Sequence[Server], asks: Sequence[Ask]) -> Outcome:
    """Give jobs what raises the sum of their throughputs, relative to their shares, most.

    See :class:`Allocation`. Who runs is decided as in :func:`~gputopo.sizing.tune.tune`,
    and nobody runs slower than with the proportional share. Then (1) prices are found at
    which all jobs together take what all servers together have, and what each takes is its
    target; (2) jobs are spread over servers so that the targets fit, in another order where
    much was lost; (3) what is left goes to whom it helps most, and jobs of one size change
    places where that lets one of them have more.
    """
    checked(servers, asks)
    menus = Menus(servers)
    chosen = [(ask, menus[ask]) for ask in runnable(servers, asks)]
    capacity = whole_capacity(servers)
    prices = prices_of(Counter(menu for _, menu in chosen), capacity)
    whole = Room("all", sum(server.gpus for server in servers), capacity)
    meant = [
        Tenant(ask, menu, prices.best(menu.options), [(whole, ask.gpus)]) for ask, menu in chosen
    ]
    give_spare(meant, prices)
    targets = [Target(each.ask, each.menu, each.option) for each in meant]
    tenants = _placed(servers, targets, prices, First.LEANING)
    if _worth(tenants) < (1 - _LOSS) * _worth(targets):
        tenants = max(tenants, _placed(servers, targets, prices, First.GAINING), key=_worth)
    return outcome(asks, tenants)


def _placed(
    servers: Sequence[Server], targets: Sequence[Target], prices: Prices, first: First
) -> list[Tenant]:
    """Return the jobs on servers, with what comes of spare resources and changed places."""
    rooms = [Room.of(server) for server in servers]
    tenants = settle(rooms, targets, prices, first)
    give_spare(tenants, prices)
    meant = _worth(targets)
    while _worth(tenants) < meant and swap(tenants, rooms):  # ends, as each swap adds worth
        give_spare(tenants, prices)
    return tenants


def _worth(jobs: Sequence[Target | Tenant]) -> float:
    return sum(job.option.worth for job in jobs)
