"""Prices of CPUs, memory and storage bandwidth, for the marginal mechanism.

A relaxation of the first program of Synergy-Opt (section 4.1, equations 1 to 5) with all
servers merged into one. At given prices each job takes the option with the highest value
minus cost. The right prices are the least at which all jobs together take no more than there
is: the Lagrange multipliers of equations 2 and 3.

Example: each of two jobs has 2 CPUs and gains 2 in value with 2 more CPUs, a third gains 0.5.
With 10 CPUs, 4 are left after 6 for all three. At a price of 0.25 a CPU the two jobs buy them,
and the third, which would gain 0.5 for 2 CPUs, no longer does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

from gputopo.sizing.model import ResourceAmounts
from gputopo.sizing.options import JobOptions, Option

_ROUNDS: Final = 4
"""Each round sets one price after another; more rounds change the result little."""

_TIE_BREAK: Final = 1 + 1e-9
"""Raises a price at which a job gains nothing by more resources, so that it takes less."""


class Prices(NamedTuple):
    """Value of one CPU, one GB and one MB/s."""

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
        """Return the option with the highest value minus cost, the first of equals."""
        return max(options, key=lambda option: option.value - self.cost_of(option))


def find_prices(demand: Mapping[JobOptions, int], capacity: ResourceAmounts) -> Prices:
    """Return the least prices at which jobs take at most the capacity.

    ``demand`` is the number of jobs with the same options, ``capacity`` that of all servers
    together. An infinite resource has no price.
    """
    prices = Prices(0, 0, 0)
    for _ in range(_ROUNDS):
        before = prices
        for index, amount in enumerate(capacity):
            if amount == inf:
                continue
            price = _find_price(demand, prices, index, amount)
            prices = prices._replace(**{Prices._fields[index]: price})
        if prices == before:
            break
    return prices


def _find_price(
    demand: Mapping[JobOptions, int], prices: Prices, index: int, amount: float
) -> float:
    """Return the least price of one resource while the other prices stay."""
    steps: list[tuple[float, float]] = []
    for options, count in demand.items():
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

    Example: the points (2, 1), (4, 1.5), (6, 6) have one step, 1.25 a unit for 4 units. The
    point at 4 is below the line between the others, so no price makes a job choose it.

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
