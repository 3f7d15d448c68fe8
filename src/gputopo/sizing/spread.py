"""Finding each job GPUs, so that all servers are asked for about as much of everything."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeAlias

from gputopo.sizing.menu import Option, Target
from gputopo.sizing.model import Ask
from gputopo.sizing.prices import Prices
from gputopo.sizing.rooms import ROUNDING, Room, Slots, Tenant, by_gpus, split
from gputopo.sizing.spare import relieve

_STRAIN: Final = 3.0
"""How far a server may be off, for a job to stay on few: in variances of what is still to come.

Splitting a job lets others sit beside its parts, so below this more jobs are split, and
above it what nobody there can use is lost. From 0.5 to 6 the mean loss hardly changes.
"""

_FAINT: Final = 1e-9
"""Weight of what has no price, since nobody lacks it as long as it is spread evenly."""


Lean: TypeAlias = tuple[float, float, float]
"""What is taken more than the average, of CPUs, memory and storage bandwidth, by price."""


class Balance:
    """How much more than the average is asked of each server, for the GPUs taken there."""

    def __init__(self, rooms: Sequence[Room], targets: Sequence[Target], prices: Prices) -> None:
        """Take the average over all GPUs, idle ones too."""
        gpus = sum(room.gpus for room in rooms)
        self._mean = [sum(target.option[k] for target in targets) / gpus for k in range(3)]
        self._weights = [price or _FAINT for price in prices]
        self._off = dict.fromkeys(rooms, (0.0, 0.0, 0.0))
        self._leans: dict[int, Lean] = {}
        leans = [(self.lean(ask, option), ask.gpus) for ask, _, option in targets]
        self._variance = [sum(lean[k] ** 2 * n for lean, n in leans) / gpus for k in range(3)]

    def lean(self, ask: Ask, option: Option) -> Lean:
        """Return what one GPU of a job takes more than the average, by its price.

        Jobs of one menu share its options, so each is looked at once.
        """
        lean = self._leans.get(id(option))
        if lean is None:
            cpus, memory_gb, storage = (
                weight * (amount / ask.gpus - mean)
                for weight, amount, mean in zip(self._weights, option, self._mean, strict=False)
            )
            lean = self._leans[id(option)] = (cpus, memory_gb, storage)
        return lean

    def leaning_away(self, rooms: Sequence[Room], lean: Lean, count: int) -> list[Room]:
        """Return so many servers, those that lean the other way most."""
        cpus, memory_gb, storage = lean
        pulls = []
        for place, room in enumerate(rooms):  # all jobs of a round come by here
            off = self._off[room]
            pulls.append((off[0] * cpus + off[1] * memory_gb + off[2] * storage, place))
        chosen = [min(pulls)] if count == 1 else sorted(pulls)[:count]
        return [rooms[place] for _, place in chosen]

    def strain(self, room: Room, gpus: int, lean: Lean) -> float:
        """Return how unlikely it is that the GPUs still free make up for so many such ones.

        That is the square of how far the server would be off, over its variance were
        its free GPUs given to just anybody.
        """
        off, left = self._off[room], room.gpus - gpus + 0.5
        return sum(
            (so_far + gpus * each) ** 2 / (variance * left)
            for so_far, each, variance in zip(off, lean, self._variance, strict=True)
            if variance > 0
        )

    def add(self, slots: Slots, lean: Lean) -> None:
        """Book what a job takes."""
        for room, gpus in slots:
            cpus, memory_gb, storage = self._off[room]
            self._off[room] = (
                cpus + gpus * lean[0],
                memory_gb + gpus * lean[1],
                storage + gpus * lean[2],
            )


class First(Enum):
    """Who is settled first, while there is most to choose from."""

    LEANING = "who leans most and is big, since few servers can make up for that"
    GAINING = "who loses most without what it should have"


def settle(
    rooms: Sequence[Room], targets: Sequence[Target], prices: Prices, first: First
) -> list[Tenant]:
    """Return all jobs with GPUs, and with what they should have as far as that goes.

    Where even the least option of a job does not fit, tenants beside it go back to theirs:
    what all are sure of is within their shares, and so fits wherever there are GPUs.

    Args:
        rooms: empty servers, with GPUs enough for all.
        targets: the jobs.
        prices: of what jobs take.
        first: in which order.
    """
    balance = Balance(rooms, targets, prices)

    def urgency(target: Target) -> tuple[float, float]:
        lean = balance.lean(target.ask, target.option)
        leaning = target.ask.gpus * sum(each * each for each in lean)
        gain = target.option.worth - target.menu.options[0].worth
        return (leaning, gain) if first is First.LEANING else (gain, leaning)

    tenants = []
    for target in sorted(targets, key=urgency, reverse=True):
        option, slots = _home(rooms, target, balance, prices)
        tenants.append(Tenant(target.ask, target.menu, option, slots))
        balance.add(slots, balance.lean(target.ask, option))
        relieve([room for room, _ in slots], prices)
    return tenants


def _home(
    rooms: Sequence[Room], target: Target, balance: Balance, prices: Prices
) -> tuple[Option, Slots]:
    """Return the best option that fits, the one meant in front, and where."""
    ask, menu, option = target
    slots = _find(rooms, ask, option, balance)
    if slots:
        return option, slots
    for other in sorted(menu.options, key=lambda each: prices.of(each) - each.worth):
        slots = _find(rooms, ask, other, balance)
        if slots:
            return other, slots
    return menu.options[0], by_gpus(rooms, ask.gpus)


def _find(rooms: Sequence[Room], ask: Ask, option: Option, balance: Balance) -> Slots | None:
    """Return the fewest servers that a job does not strain, else those it strains least."""
    lean = balance.lean(ask, option)
    found: list[tuple[float, int, Slots]] = []
    each = ask.gpus
    while each:
        slots = _in_parts(rooms, ask.gpus, each, option, lean, balance)
        if slots and ask.gpus == 1:
            return slots
        if slots:
            strain = max(balance.strain(room, gpus, lean) for room, gpus in slots)
            if strain <= _STRAIN:
                return slots
            found.append((strain, len(slots), slots))
        each //= 2
    return min(found, key=lambda one: one[:2])[-1] if found else split(rooms, ask.gpus, option)


def _in_parts(
    rooms: Sequence[Room],
    gpus: int,
    each: int,
    option: Option,
    lean: Lean,
    balance: Balance,
) -> Slots | None:
    """Return servers for parts of so many GPUs and a rest, those that lean the other way most."""
    cpus, memory_gb, storage = (amount * each / gpus - ROUNDING for amount in option[:3])
    fitting = [
        room
        for room in rooms
        if room.gpus >= each
        and room.cpus >= cpus
        and room.memory_gb >= memory_gb
        and room.storage_mb_per_s >= storage
    ]
    parts = -(-gpus // each)
    if len(fitting) < parts:
        return None
    sizes = [each] * (gpus // each) + [gpus % each] * (gpus % each > 0)
    return list(zip(balance.leaning_away(fitting, lean, parts), sizes, strict=True))
