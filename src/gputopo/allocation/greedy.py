"""First fit of the whole demand, past whom it does not fit (Synergy-Greedy, section 3.3)."""

from collections.abc import Sequence

from gputopo.allocation.menu import Menus
from gputopo.allocation.model import Ask, Outcome, Server
from gputopo.allocation.rooms import Room, Tenant, checked, first_fit, outcome


def greedy(servers: Sequence[Server], asks: Sequence[Ask]) -> Outcome:
    """Give each job its demand on the first server that has it; see :class:`Allocation`.

    A job whose demand is not to be had is passed over, so GPUs may stay idle and a job may
    wait for ever. One whose demand the idle cluster has not would wait in any company: it
    asks for its share instead. Several GPUs are split over servers where no one has them.
    """
    checked(servers, asks)
    menus, rooms = Menus(servers), [Room.of(server) for server in servers]
    idle = [Room.of(server) for server in servers]
    possible: dict[int, bool] = {}
    tenants = []
    for ask in asks:
        menu = menus[ask]
        if id(menu) not in possible:
            possible[id(menu)] = first_fit(idle, ask.gpus, menu.demand) is not None
        option = menu.demand if possible[id(menu)] else menu.cut
        slots = first_fit(rooms, ask.gpus, option)
        if slots is not None:
            tenants.append(Tenant(ask, menu, option, slots))
    return outcome(asks, tenants)
