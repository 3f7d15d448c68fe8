"""What CPUs, memory and storage bandwidth are worth, when all jobs want of them.

The relaxation of the first program of Synergy-Opt (section 4.1, equations 1 to 5), where all
servers are one: with a price on each resource every job takes the option that is worth
most above its price, and the right prices are the least at which what they take is there
(Lagrange multipliers of equations 2 and 3).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

from gputopo.sizing.menu import Menu, Option
from gputopo.sizing.model import Resources

_ROUNDS: Final = 4
"""Each price is set with the others as they are; more rounds than this change little."""

_ABOVE: Final = 1 + 1e-9
"""A price at which a job would as soon have more is raised so far that it would not."""


class Prices(NamedTuple):
    """Worth of one CPU, one GB and one MB/s."""

    cpu: float
    memory_gb: float
    storage_mb_per_s: float

    def of(self, option: Option) -> float:
        """Return what an option costs."""
        return (
            self.cpu * option.cpus
            + self.memory_gb * option.memory_gb
            + self.storage_mb_per_s * option.storage_mb_per_s
        )

    def best(self, options: Iterable[Option]) -> Option:
        """Return the option that is worth most above its price, the least of such."""
        return max(options, key=lambda option: option.worth - self.of(option))


def prices_of(demand: Mapping[Menu, int], capacity: Resources) -> Prices:
    """Return the least prices at which jobs take no more than there is.

    Args:
        demand: how many jobs have each menu.
        capacity: of all servers together.
    """
    prices = Prices(0, 0, 0)
    for _ in range(_ROUNDS):
        before = prices
        for which, there_is in enumerate(capacity):
            if there_is == inf:
                continue
            price = _price(demand, prices, which, there_is)
            prices = prices._replace(**{Prices._fields[which]: price})
        if prices == before:
            break
    return prices


def _price(demand: Mapping[Menu, int], prices: Prices, which: int, there_is: float) -> float:
    """Return the least price of one resource, the others being as they are."""
    steps: list[tuple[float, float]] = []
    for menu, count in demand.items():
        points = sorted(
            (option[which], option.worth - prices.of(option) + prices[which] * option[which])
            for option in menu.options
        )
        there_is -= points[0][0] * count
        steps += ((gain, more * count) for gain, more in _envelope(points))
    for gain, more in sorted(steps, reverse=True):
        there_is -= more
        if there_is < 0:
            return gain * _ABOVE
    return 0.0


def _envelope(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield the rising part of the least concave curve over some points.

    Args:
        points: amount and worth, by ascending amount.

    Yields:
        worth gained for each more of the amount, descending, and how much more.
    """
    curve: list[tuple[float, float]] = []
    for amount, worth in points:
        if curve and worth <= curve[-1][1]:
            continue
        while curve and (
            curve[-1][0] == amount
            or (len(curve) > 1 and _slope(*curve[-2:]) <= _slope(curve[-1], (amount, worth)))
        ):
            curve.pop()
        curve.append((amount, worth))
    for one, other in pairwise(curve):
        yield _slope(one, other), other[0] - one[0]


def _slope(one: tuple[float, float], other: tuple[float, float]) -> float:
    return (other[1] - one[1]) / (other[0] - one[0])
