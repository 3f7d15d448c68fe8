"""Tetris, for comparison (Synergy, section 5.7): packs what aligns best with what is free."""

from collections.abc import Sequence
from math import inf

from gputopo.sizing.menu import Target
from gputopo.sizing.model import Ask, Outcome, Server
from gputopo.sizing.rooms import Room, Tenant, outcome
from gputopo_simulate.synergy.comparison.greedy import fill, wishes


def tetris(servers: Sequence[Server], asks: Sequence[Ask]) -> Outcome:
    """Give each server in turn to the jobs whose demands align best with what is free there.

    See :class:`Allocation`. Alignment is the dot product of demand and free resources, each
    as a part of the server. The order of the asks decides between equals. Who fits
    on no server is split as in :func:`~gputopo_simulate.synergy.comparison.greedy.greedy`.
    """
    waiting = wishes(servers, asks)
    rooms = [Room.of(server) for server in servers]
    tenants = []
    for server, room in zip(servers, rooms, strict=True):
        while fitting := [each for each in waiting if _fits(room, each)]:
            best = max(fitting, key=lambda each: _alignment(server, room, each))
            waiting.remove(best)
            tenants.append(Tenant(*best, [(room, best.ask.gpus)]))
    return outcome(asks, [*tenants, *fill(rooms, waiting)])


def _fits(room: Room, target: Target) -> bool:
    return room.gpus >= target.ask.gpus and room.has(target.option, 1)


def _alignment(server: Server, room: Room, target: Target) -> float:
    asked, option = target.ask.gpus, target.option
    aligned = asked / server.gpus * room.gpus / server.gpus
    aligned += option.cpus / server.cpus * room.cpus / server.cpus
    aligned += option.memory_gb / server.memory_gb * room.memory_gb / server.memory_gb
    if server.storage_mb_per_s < inf:
        whole = server.storage_mb_per_s
        aligned += option.storage_mb_per_s / whole * room.storage_mb_per_s / whole
    return aligned
