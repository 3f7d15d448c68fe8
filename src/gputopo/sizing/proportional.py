"""The fair share: CPUs and memory by GPUs, needed or not. What clusters do (Synergy, section 2)."""

from collections.abc import Sequence

from gputopo.sizing.menu import Menus
from gputopo.sizing.model import Ask, Outcome, Server
from gputopo.sizing.rooms import Room, Tenant, by_gpus, checked, outcome, runnable


def proportional(servers: Sequence[Server], asks: Sequence[Ask]) -> Outcome:
    """Give each job the proportional share of its GPUs; see :class:`Allocation`."""
    checked(servers, asks)
    menus, rooms = Menus(servers), [Room.of(server) for server in servers]
    tenants = []
    for ask in sorted(runnable(servers, asks), key=lambda ask: -ask.gpus):
        menu = menus[ask]
        tenants.append(Tenant(ask, menu, menu.share, by_gpus(rooms, ask.gpus)))
    return outcome(asks, tenants)
