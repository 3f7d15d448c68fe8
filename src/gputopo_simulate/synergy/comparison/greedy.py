"""First fit of the whole demand, past whom it does not fit (Synergy-Greedy, section 3.3)."""

from collections.abc import Iterable, Sequence

from gputopo.sizing.menu import Menu, Menus, Target
from gputopo.sizing.model import Ask, Outcome, Server
from gputopo.sizing.rooms import Room, Tenant, checked, first_fit, outcome


def greedy(servers: Sequence[Server], asks: Sequence[Ask]) -> Outcome:
    """Give each job its demand on the first server that has it; see :class:`Allocation`.

    A job whose demand is not to be had is passed over, so GPUs may stay idle and a job may
    wait for ever. Several GPUs are split over servers where no one has them.
    """
    rooms = [Room.of(server) for server in servers]
    return outcome(asks, fill(rooms, wishes(servers, asks)))


def wishes(servers: Sequence[Server], asks: Sequence[Ask]) -> list[Target]:
    """Return what each job holds out for: its demand.

    A demand that the idle cluster has not would be waited for in any company, so then it is
    the share.

    Raises:
        ValueError: no server, or a server or job named twice.
    """
    checked(servers, asks)
    menus, idle = Menus(servers), [Room.of(server) for server in servers]
    to_be_had: dict[Menu, bool] = {}
    wanted = []
    for ask in asks:
        menu = menus[ask]
        if menu not in to_be_had:
            to_be_had[menu] = first_fit(idle, ask.gpus, menu.demand) is not None
        wanted.append(Target(ask, menu, menu.demand if to_be_had[menu] else menu.cut))
    return wanted


def fill(rooms: Sequence[Room], wanted: Iterable[Target]) -> list[Tenant]:
    """Return the jobs that find what they want, first come first served, first fit."""
    tenants = []
    for ask, menu, option in wanted:
        slots = first_fit(rooms, ask.gpus, option)
        if slots is not None:
            tenants.append(Tenant(ask, menu, option, slots))
    return tenants
