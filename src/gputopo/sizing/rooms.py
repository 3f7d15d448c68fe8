"""The servers while they fill, and the ways to find GPUs on them."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, Self, TypeAlias

from gputopo.sizing.menu import Menu, Option
from gputopo.sizing.model import Ask, Grant, Outcome, Part, Resources, Server

ROUNDING: Final = 1e-6
"""CPUs, GB and MB/s that sums of fractions may be off."""


class Room:
    """What is free of one server, and who is on it."""

    __slots__ = ("cpus", "gpus", "memory_gb", "name", "storage_mb_per_s", "tenants")

    def __init__(self, name: str, gpus: int, free: Resources) -> None:
        """Begin with nobody in it."""
        self.name, self.gpus = name, gpus
        self.cpus, self.memory_gb, self.storage_mb_per_s = free
        self.tenants: list[Tenant] = []

    @classmethod
    def of(cls, server: Server) -> Self:
        """Return an empty server."""
        free = Resources(server.cpus, server.memory_gb, server.storage_mb_per_s)
        return cls(server.name, server.gpus, free)

    def has(self, option: Option, part: float) -> bool:
        """Whether this part of an option, 0..1, is free beside the GPUs."""
        return (
            self.cpus + ROUNDING >= option.cpus * part
            and self.memory_gb + ROUNDING >= option.memory_gb * part
            and self.storage_mb_per_s + ROUNDING >= option.storage_mb_per_s * part
        )

    def most(self, option: Option, gpus: int) -> int:
        """Return how many of a job's GPUs find place here, each with its part of an option."""
        most = float(self.gpus)
        free = (self.cpus, self.memory_gb, self.storage_mb_per_s)
        for amount, asked in zip(free, option, strict=False):
            if asked > 0:
                most = min(most, (amount + ROUNDING) * gpus / asked)
        return int(most)

    @property
    def overdrawn(self) -> bool:
        """Whether more is given here than there is."""
        return min(self.cpus, self.memory_gb, self.storage_mb_per_s) < -ROUNDING

    def take(self, option: Option, part: float) -> None:
        """Take a part of an option; a negative part gives it back."""
        self.cpus -= option.cpus * part
        self.memory_gb -= option.memory_gb * part
        self.storage_mb_per_s -= option.storage_mb_per_s * part


Slots: TypeAlias = list[tuple[Room, int]]
"""Rooms, and how many GPUs of a job are meant in each."""


class Tenant:
    """A job that has its GPUs, and what it has beside them for now."""

    __slots__ = ("ask", "menu", "option", "slots")

    def __init__(self, ask: Ask, menu: Menu, option: Option, slots: Slots) -> None:
        """Move in."""
        self.ask, self.menu, self.option, self.slots = ask, menu, option, slots
        self._enter()

    def _enter(self) -> None:
        whole = self.ask.gpus
        for room, gpus in self.slots:
            room.gpus -= gpus
            room.take(self.option, gpus / whole)
            room.tenants.append(self)

    def move(self, slots: Slots, option: Option) -> None:
        """Leave these GPUs for others, and have another option there."""
        for room, gpus in self.slots:
            room.gpus += gpus
            room.take(self.option, -gpus / self.ask.gpus)
            room.tenants.remove(self)
        self.slots, self.option = slots, option
        self._enter()

    def change_to(self, option: Option) -> None:
        """Have another option on the same GPUs."""
        for room, gpus in self.slots:
            room.take(self.option, -gpus / self.ask.gpus)
            room.take(option, gpus / self.ask.gpus)
        self.option = option

    def can_change_to(self, option: Option) -> bool:
        """Whether what that is more than the present option is free wherever the job is."""
        now = self.option
        cpus, memory_gb = option.cpus - now.cpus, option.memory_gb - now.memory_gb
        storage = option.storage_mb_per_s - now.storage_mb_per_s
        for room, gpus in self.slots:
            part = gpus / self.ask.gpus
            if (
                cpus * part > room.cpus + ROUNDING
                or memory_gb * part > room.memory_gb + ROUNDING
                or storage * part > room.storage_mb_per_s + ROUNDING
            ):
                return False
        return True

    def grant(self) -> Grant:
        """Return what the job has."""
        whole = self.ask.gpus
        cpus, memory_gb, storage, throughput, _ = self.option
        if len(self.slots) == 1:
            only = Part(self.slots[0][0].name, whole, cpus, memory_gb, storage)
            return Grant(self.ask.job, (only,), throughput)
        parts = tuple(
            Part(
                room.name,
                gpus,
                cpus * gpus / whole,
                memory_gb * gpus / whole,
                storage * gpus / whole,
            )
            for room, gpus in self.slots
        )
        return Grant(self.ask.job, parts, throughput)


def first_fit(rooms: Sequence[Room], gpus: int, option: Option) -> Slots | None:
    """Return the first server that has so much, else as few servers as can; None for none."""
    for room in rooms:
        if room.gpus >= gpus and room.has(option, 1):
            return [(room, gpus)]
    return split(rooms, gpus, option)


def best_fit(rooms: Sequence[Room], gpus: int, option: Option) -> Slots | None:
    """Return the server that has just so much, else as few servers as can; None for none."""
    cpus, memory_gb = option.cpus - ROUNDING, option.memory_gb - ROUNDING
    storage = option.storage_mb_per_s - ROUNDING
    found, least = None, (0, 0.0, 0.0)
    for room in rooms:  # the one loop that all jobs of a round go through
        if (
            room.gpus >= gpus
            and room.cpus >= cpus
            and room.memory_gb >= memory_gb
            and room.storage_mb_per_s >= storage
        ):
            free = (room.gpus, room.cpus, room.memory_gb)
            if found is None or free < least:
                found, least = room, free
    return split(rooms, gpus, option) if found is None else [(found, gpus)]


def by_gpus(rooms: Sequence[Room], gpus: int) -> Slots:
    """Return the server with just so many GPUs, else as few servers as can.

    Args:
        rooms: in which so many GPUs are free together.
        gpus: of one job.
    """
    fitting = [(room.gpus, place) for place, room in enumerate(rooms) if room.gpus >= gpus]
    if fitting:
        return [(rooms[min(fitting)[-1]], gpus)]
    slots: Slots = []
    roomiest = iter(sorted(rooms, key=lambda each: -each.gpus))
    while gpus:
        room = next(roomiest)
        slots.append((room, min(room.gpus, gpus)))
        gpus -= slots[-1][1]
    return slots


def split(rooms: Sequence[Room], gpus: int, option: Option) -> Slots | None:
    """Return the fewest servers that have so much together, in proportion to the GPUs.

    A job with one GPU has one server.
    """
    if gpus == 1:
        return None
    most = [(room.most(option, gpus), place) for place, room in enumerate(rooms)]
    slots: Slots = []
    for count, place in sorted(most, key=lambda each: (-each[0], each[1])):
        taken = min(count, gpus)
        if taken == 0:
            return None
        slots.append((rooms[place], taken))
        gpus -= taken
        if gpus == 0:
            return slots
    return None


def runnable(servers: Sequence[Server], asks: Sequence[Ask]) -> list[Ask]:
    """Return those whose turn it is: in order, each that finds as many GPUs left as it asks.

    Only GPUs count here, and a job is passed over only where they do not suffice, so no GPU
    is left idle that somebody could use (Synergy, section 4.2).
    """
    free = sum(server.gpus for server in servers)
    chosen = []
    for ask in asks:
        gpus = ask.gpus
        if gpus <= free:
            chosen.append(ask)
            free -= gpus
            if free == 0:
                break
    return chosen


class Named(Protocol):
    """A job that asks, on whatever terms."""

    @property
    def job(self) -> str:
        """Its id."""
        ...


def checked(servers: Sequence[Server], asks: Sequence[Named]) -> None:
    """Refuse names that do not tell apart.

    Raises:
        ValueError: no server, or a server or job named twice.
    """
    if not servers:
        raise ValueError("servers: none")
    _refuse_twins("server", [server.name for server in servers])
    _refuse_twins("job", [ask.job for ask in asks])


def _refuse_twins(kind: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twin = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"{kind} {twin}: there are two of that name")


def outcome(asks: Sequence[Named], tenants: Iterable[Tenant]) -> Outcome:
    """Return who has what and who waits."""
    running = {tenant.ask.job: tenant for tenant in tenants}
    grants = tuple(running[ask.job].grant() for ask in asks if ask.job in running)
    return Outcome(grants, tuple(ask.job for ask in asks if ask.job not in running))
