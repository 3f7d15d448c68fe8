"""Prices of CPUs, memory and storage bandwidth, for the marginal mechanism.

All servers are treated as one. Each job takes the option with the highest value minus cost. The
module finds the lowest prices at which all jobs together do not exceed the capacity. This method
relaxes the first linear program of Synergy-Opt (section 4.1, equations 1 to 5): the prices are the
Lagrange multipliers of its capacity limits (equations 2 and 3).

Example: three jobs run on a server, and 4 CPUs are free. With 2 more CPUs, the value of jobs A and
B rises by 2 each, and that of job C by 0.5. At a price of 0.25 per CPU, 2 CPUs cost 0.5. So A and B
take 2 CPUs each. C takes none, because its gain is not above the cost.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

from gputopo.sizing.model import ResourceAmounts
from gputopo.sizing.options import JobOptions, Option

_ROUNDS: Final = 4
"""How often all prices are set, one after another. More rounds change the result little."""

_TIE_BREAK: Final = 1 + 1e-9
"""Raises a price slightly, so that a job does not take resources without a gain."""


class Prices(NamedTuple):
    """Prices of one CPU, one GB of memory and one MB/s of storage, in units of ``Option.value``."""

    cpu: float
    memory_gb: float
    storage_mb_per_s: float

    def cost_of(self, option: Option) -> float:
        """Return the cost of an option's resources."""
        return (
            self.cpu * option.cpus
            + self.memory_gb * option.memory_gb
            + self.storage_mb_per_s * option.storage_mb_per_s
        )

    def best_option(self, options: Iterable[Option]) -> Option:
        """Return the option with the highest value minus cost; of equal options, the first."""
        return max(options, key=lambda option: option.value - self.cost_of(option))


def find_prices(jobs: Mapping[JobOptions, int], capacity: ResourceAmounts) -> Prices:
    """Return the lowest prices at which all jobs together do not exceed the capacity.

    ``jobs`` has the number of jobs with each :class:`JobOptions`, because jobs with the same matrix
    share one object. ``capacity`` is the sum of each resource over all servers. A resource of
    infinite capacity has the price 0.
    """
    prices = Prices(0, 0, 0)
    for _ in range(_ROUNDS):
        before = prices
        for index, amount in enumerate(capacity):
            if amount == inf:
                continue
            price = _find_price(jobs, prices, index, amount)
            prices = prices._replace(**{Prices._fields[index]: price})
        if prices == before:
            break
    return prices


def _find_price(jobs: Mapping[JobOptions, int], prices: Prices, index: int, amount: float) -> float:
    """Return the lowest price of resource ``index`` at which jobs take at most ``amount`` of it."""
    steps: list[tuple[float, float]] = []
    for options, count in jobs.items():
        points = sorted(
            (option[index], option.value - prices.cost_of(option) + prices[index] * option[index])
            for option in options.efficient
        )
        amount -= points[0][0] * count
        steps += ((gain, more * count) for gain, more in _concave_steps(points))
    for gain, more in sorted(steps, reverse=True):
        amount -= more
        if amount < 0:
            return gain * _TIE_BREAK
    return 0.0


def _concave_steps(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield the rising steps of the upper concave envelope of points (amount, value).

    Example: the points (2, 1), (4, 1.5), (6, 6) have one step of 4 units, with a gain of 1.25 per
    unit. No price makes a job choose (4, 1.5), because it is below the line between the other
    points.

    Args:
        points: by ascending amount.

    Yields:
        the gain in value per unit, descending, and the number of units.
    """
    envelope: list[tuple[float, float]] = []
    for amount, value in points:
        if envelope and value <= envelope[-1][1]:
            continue
        while envelope and (
            envelope[-1][0] == amount
            or (
                len(envelope) > 1
                and _slope(*envelope[-2:]) <= _slope(envelope[-1], (amount, value))
            )
        ):
            envelope.pop()
        envelope.append((amount, value))
    for one, other in pairwise(envelope):
        yield _slope(one, other), other[0] - one[0]


def _slope(one: tuple[float, float], other: tuple[float, float]) -> float:
    return (other[1] - one[1]) / (other[0] - one[0])
