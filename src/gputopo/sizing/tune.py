"""Synergy-Tune as its paper's text has it (section 4.2)."""

from collections.abc import Sequence
from operator import ge

from gputopo.sizing.menu import Menus, Option
from gputopo.sizing.model import Ask, Outcome, Server
from gputopo.sizing.rooms import (
    ROUNDING,
    Room,
    Slots,
    Tenant,
    best_fit,
    by_gpus,
    checked,
    outcome,
    runnable,
)


def tune(servers: Sequence[Server], asks: Sequence[Ask]) -> Outcome:
    """Give jobs their demands, and take from the well off what the last ones lack.

    See :class:`Allocation`. Who runs is decided by the order of the asks and GPUs alone.
    They are placed by descending GPU, CPU and memory demand, best fit. A demand that does
    not fit is (1) cut to the proportional share where it is over it; where that does not fit
    either, (2) servers are taken by GPUs alone, and tenants with more than their share cut
    to it until it fits. Such tenants there are: had all on a server no more than the
    share of their GPUs, the share of its free GPUs would be free too.
    """
    checked(servers, asks)
    menus, rooms = Menus(servers), [Room.of(server) for server in servers]
    chosen = [(ask, menus[ask]) for ask in runnable(servers, asks)]
    chosen.sort(key=lambda each: (-each[0].gpus, -each[1].demand.cpus, -each[1].demand.memory_gb))
    tenants = []
    for ask, menu in chosen:
        option, slots = menu.demand, best_fit(rooms, ask.gpus, menu.demand)
        if slots is None:
            option = menu.cut
            slots = best_fit(rooms, ask.gpus, option) if menu.over_share else None
        if slots is None:
            slots = _cleared(rooms, ask.gpus, option)
        tenants.append(Tenant(ask, menu, option, slots))
    return outcome(asks, tenants)


def _cleared(rooms: Sequence[Room], gpus: int, option: Option) -> Slots:
    """Return GPUs with so much beside them, for which others were cut to their share."""
    slots = by_gpus(rooms, gpus)
    for room, count in slots:
        while not room.has(option, count / gpus):
            victim = _victim(room, option, count / gpus)
            victim.change_to(victim.menu.cut)
    return slots


def _victim(room: Room, option: Option, part: float) -> Tenant:
    """Return whom to cut to the share: who frees just enough, else most of what lacks.

    A tenant here has its demand or was cut already.
    """
    richer = [
        tenant
        for tenant in room.tenants
        if tenant.menu.over_share and tenant.option is tenant.menu.demand
    ]
    freed = [_freed(tenant, room) for tenant in richer]
    free = (room.cpus, room.memory_gb, room.storage_mb_per_s)
    lacking = [asked * part - ROUNDING - had for asked, had in zip(option[:3], free, strict=True)]
    enough = [place for place, amounts in enumerate(freed) if all(map(ge, amounts, lacking))]
    if enough:
        return richer[min(enough, key=freed.__getitem__)]
    return richer[max(range(len(richer)), key=lambda place: _relief(freed[place], lacking))]


def _freed(tenant: Tenant, room: Room) -> list[float]:
    """Return CPUs, memory and storage bandwidth that come free in a room with the cut."""
    gpus = next(gpus for each, gpus in tenant.slots if each is room)
    before, after = tenant.option[:3], tenant.menu.cut[:3]
    return [
        (more - less) * gpus / tenant.ask.gpus for more, less in zip(before, after, strict=True)
    ]


def _relief(freed: Sequence[float], lacking: Sequence[float]) -> float:
    """Return how much of what lacks comes free: 1 for each resource of which all does."""
    pairs = zip(freed, lacking, strict=True)
    return sum(min(amount / lack, 1) for amount, lack in pairs if lack > 0)
