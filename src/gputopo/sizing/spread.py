"""Spread jobs over servers so that all resources of a server are used to about the same degree.

For each resource, a job has an excess: its amount per GPU minus the average of all GPUs, times the
price of the resource. A job with many CPUs per GPU has a positive excess of CPUs. It is placed on a
server whose jobs have a negative excess of CPUs. Example: the average is 3 CPUs per GPU and the
price is 1. A job of 2 GPUs with 10 CPUs has an excess of 5 - 3 = 2 per GPU and adds 4 to its
server. A job of one GPU with 1 CPU has an excess of 1 - 3 = -2, so two such jobs bring the server
back to 0.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, TypeAlias

from gputopo.sizing.fit import fit_by_gpus, split_over_servers
from gputopo.sizing.model import SizingRequest
from gputopo.sizing.options import Option, OptionChoice
from gputopo.sizing.prices import Prices
from gputopo.sizing.server_state import TOLERANCE, PlacedJob, ServerState, Slots
from gputopo.sizing.spare import reduce_overcommitted

_MAX_IMBALANCE: Final = 3.0
"""A job is split over more servers if the imbalance of one of its servers would exceed this.

See :meth:`ServerBalance.imbalance`. A lower limit splits more jobs; a higher limit leaves more
resources unused. With limits from 0.5 to 6 the mean loss of value hardly changes.
"""

_NO_PRICE_WEIGHT: Final = 1e-9
"""Weight of a resource without a price. The weight is small, because no job lacks it."""


Excess: TypeAlias = tuple[float, float, float]
"""CPUs, memory and storage bandwidth above the average, each multiplied by its price."""


class ServerBalance:
    """The excess of each server: the sum of the excesses of its jobs (see the module)."""

    def __init__(
        self, servers: Sequence[ServerState], choices: Sequence[OptionChoice], prices: Prices
    ) -> None:
        """Compute average and variance of each resource over all GPUs, idle GPUs included."""
        gpus = sum(server.gpus for server in servers)
        self._mean = [sum(each.option[k] for each in choices) / gpus for k in range(3)]
        self._weights = [price or _NO_PRICE_WEIGHT for price in prices]
        self._excess_of = dict.fromkeys(servers, (0.0, 0.0, 0.0))
        self._known: dict[int, Excess] = {}
        all_excess = [
            (self.excess(request, option), request.gpus) for request, _, option in choices
        ]
        self._variance = [
            sum(excess[k] ** 2 * count for excess, count in all_excess) / gpus for k in range(3)
        ]

    def excess(self, request: SizingRequest, option: Option) -> Excess:
        """Return a job's excess per GPU; it is cached by option, because jobs share options."""
        excess = self._known.get(id(option))
        if excess is None:
            cpus, memory_gb, storage = (
                weight * (amount / request.gpus - mean)
                for weight, amount, mean in zip(self._weights, option, self._mean, strict=False)
            )
            excess = self._known[id(option)] = (cpus, memory_gb, storage)
        return excess

    def most_opposite(
        self, servers: Sequence[ServerState], excess: Excess, count: int
    ) -> list[ServerState]:
        """Return the ``count`` servers whose excess has the lowest dot product with the job's."""
        cpus, memory_gb, storage = excess
        products = []
        for index, server in enumerate(servers):  # explicit sum for speed: it runs for each job
            own = self._excess_of[server]
            products.append((own[0] * cpus + own[1] * memory_gb + own[2] * storage, index))
        chosen = [min(products)] if count == 1 else sorted(products)[:count]
        return [servers[index] for _, index in chosen]

    def imbalance(self, server: ServerState, gpus: int, excess: Excess) -> float:
        """Return a number that is high if later jobs will hardly bring the server's excess to 0.

        The result is the sum of a / b over the resources. a is the square of the server's excess
        with the job. b is how much later jobs can change the excess: the variance of the excess per
        GPU, times the number of GPUs that stay free.
        """
        own, left = self._excess_of[server], server.gpus - gpus + 0.5
        return sum(
            (so_far + gpus * each) ** 2 / (variance * left)
            for so_far, each, variance in zip(own, excess, self._variance, strict=True)
            if variance > 0
        )

    def add(self, slots: Slots, excess: Excess) -> None:
        """Add a placed job to the excess of its servers."""
        for server, gpus in slots:
            cpus, memory_gb, storage = self._excess_of[server]
            self._excess_of[server] = (
                cpus + gpus * excess[0],
                memory_gb + gpus * excess[1],
                storage + gpus * excess[2],
            )


class PlacementOrder(Enum):
    """Which jobs are placed first, while most servers are still free.

    LARGEST_EXCESS: jobs whose resources differ most from the average; few servers can balance them.
    LARGEST_GAIN: jobs that would lose the most value with :attr:`JobOptions.least`.
    """

    LARGEST_EXCESS = auto()
    LARGEST_GAIN = auto()


def place_jobs(
    servers: Sequence[ServerState],
    choices: Sequence[OptionChoice],
    prices: Prices,
    order: PlacementOrder,
) -> list[PlacedJob]:
    """Place each job with its chosen option; if this does not fit, with the best option that fits.

    If no option of a job fits, its servers are chosen by GPUs alone. The job and then other jobs on
    these servers get their least options (:attr:`JobOptions.least`) until all jobs fit. Least
    options do not exceed the proportional shares, so they fit wherever GPUs are free.

    The servers must be idle and have enough GPUs for all jobs. ``prices`` weight the resources.
    """
    balance = ServerBalance(servers, choices, prices)

    def urgency(choice: OptionChoice) -> tuple[float, float]:
        excess = balance.excess(choice.request, choice.option)
        size = choice.request.gpus * sum(each * each for each in excess)
        gain = choice.option.value - choice.options.least.value
        return (size, gain) if order is PlacementOrder.LARGEST_EXCESS else (gain, size)

    placed = []
    for choice in sorted(choices, key=urgency, reverse=True):
        option, slots = _find_option(servers, choice, balance, prices)
        placed.append(PlacedJob(choice.request, choice.options, option, slots))
        balance.add(slots, balance.excess(choice.request, option))
        reduce_overcommitted([server for server, _ in slots], prices)
    return placed


def _find_option(
    servers: Sequence[ServerState], choice: OptionChoice, balance: ServerBalance, prices: Prices
) -> tuple[Option, Slots]:
    request, options, option = choice
    slots = _find_slots(servers, request, option, balance)
    if slots:
        return option, slots
    for other in sorted(options.efficient, key=lambda each: prices.cost_of(each) - each.value):
        slots = _find_slots(servers, request, other, balance)
        if slots:
            return other, slots
    return options.least, fit_by_gpus(servers, request.gpus)


def _find_slots(
    servers: Sequence[ServerState], request: SizingRequest, option: Option, balance: ServerBalance
) -> Slots | None:
    """Return servers for the job. Few servers are preferred, but each server must stay balanced.

    For a job of 8 GPUs, the function tries 8 GPUs per server, then 4, 2 and 1, until all servers
    stay balanced. If they never do, it returns the most balanced servers.
    """
    excess = balance.excess(request, option)
    found: list[tuple[float, int, Slots]] = []
    part = request.gpus
    while part:
        slots = _find_parts(servers, request.gpus, part, option, excess, balance)
        if slots and request.gpus == 1:
            return slots
        if slots:
            imbalance = max(balance.imbalance(server, gpus, excess) for server, gpus in slots)
            if imbalance <= _MAX_IMBALANCE:
                return slots
            found.append((imbalance, len(slots), slots))
        part //= 2
    if found:
        return min(found, key=lambda one: one[:2])[-1]
    return split_over_servers(servers, request.gpus, option)


def _find_parts(
    servers: Sequence[ServerState],
    gpus: int,
    part: int,
    option: Option,
    excess: Excess,
    balance: ServerBalance,
) -> Slots | None:
    """Split a job into parts of ``part`` GPUs; return the servers that balance them best."""
    cpus, memory_gb, storage = (amount * part / gpus - TOLERANCE for amount in option[:3])
    fitting = [
        server
        for server in servers
        if server.gpus >= part
        and server.cpus >= cpus
        and server.memory_gb >= memory_gb
        and server.storage_mb_per_s >= storage
    ]
    parts = -(-gpus // part)
    if len(fitting) < parts:
        return None
    sizes = [part] * (gpus // part) + [gpus % part] * (gpus % part > 0)
    return list(zip(balance.most_opposite(fitting, excess, parts), sizes, strict=True))
