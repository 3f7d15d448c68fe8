"""Computes the rates of a member by its number of GPUs from measured ones (FLEET, equation 1).

``e(m) = r(m) / m`` is the rate of one of ``m`` GPUs. FLEET assumes that each further GPU changes it
by the same factor. With the last two measured numbers of GPUs, ``K < M``::

    r(m) = m * e(M) * (e(M) / e(K))^((m - M) / (M - K))

With ``M = M_b`` and ``K = M_b - 1`` this is equation 1 of the paper. The paper takes ``M_b`` even
if a larger number was measured; here ``M`` is the largest measured number. Between two measured
numbers, the same formula interpolates, so that it gives back all measured rates.

There are three limits. ``K`` is at least 2, because one GPU does not communicate. The factor is at
most 1: a measured gain of further GPUs is not continued. Nothing is extrapolated beyond ``2 * M``,
unless the caller sets another limit. :mod:`gputopo.profiles.scaling` has the same rules.

Example: 100, 190 and 270 items per second with 1, 2 and 3 GPUs. One of 3 GPUs has 90 and one of 2
has 95, so the factor is 0.947, and 4 GPUs have ``4 * 90 * 0.947 = 341`` items per second.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import ceil, inf
from typing import Final, NamedTuple

from gputopo.api.profile import ScalingFact
from gputopo.errors import InvalidInputError

_FIRST_PAIR: Final = 2
_MICRO: Final = 1e6


class EnsembleError(InvalidInputError):
    """Input of the planning of an ensemble was rejected; the message names field and value."""


class BatchOf(StrEnum):
    """Whether the stated items of a step are those of one GPU or of the whole job."""

    GPU = "GPU"
    JOB = "Job"


@dataclass(frozen=True, slots=True)
class MemberRates:
    """Rates of one member, by its number of GPUs.

    Attributes:
        measured: measured numbers of GPUs, ascending, each with its rate.
        values: known rates, of the smallest measured number of GPUs, the next one, and so on.
    """

    measured: tuple[tuple[int, float], ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, measured: Mapping[int, float], most: int | None = None) -> "MemberRates":
        """Return the rates that follow from measured ones.

        Args:
            measured: items per second by number of GPUs.
            most: largest number of GPUs of an extrapolated rate; None for twice the largest
                measured number.

        Raises:
            EnsembleError: if nothing was measured, or a number or rate is not positive.
        """
        if not measured:
            raise EnsembleError("rates: the list is empty; at least one rate is required")
        for gpus, rate in measured.items():
            if gpus < 1 or not 0 < rate < inf:
                raise EnsembleError(f"rates: {rate} with {gpus} GPUs; both must be numbers above 0")
        anchors = tuple(sorted(measured.items()))
        return cls(anchors, tuple(_values(anchors, most)))

    @classmethod
    def combined(
        cls, declared: Mapping[int, float], measured: "MemberRates | None"
    ) -> "MemberRates | None":
        """Return the rates from what a user declares and what was measured; None without both.

        Measured rates have priority. Numbers of GPUs that were not measured keep the declared rate,
        times the mean ratio of both where both are known.
        """
        if measured is None or not declared:
            return cls.of(declared) if declared else measured
        known = dict(measured.measured)
        ratios = [known[gpus] / declared[gpus] for gpus in known if gpus in declared]
        factor = sum(ratios) / len(ratios) if ratios else 1.0
        return cls.of({**{gpus: factor * rate for gpus, rate in declared.items()}, **known})

    @classmethod
    def of_facts(
        cls, facts: Iterable[ScalingFact], items_per_step: float, batch: BatchOf
    ) -> "MemberRates | None":
        """Return the rates of the measured facts of a GPUProfile; None if there are none.

        Facts count steps, and a step with ``m`` GPUs processes ``m`` times the items of a GPU.
        Extrapolated facts are ignored, because they follow from the others.

        Raises:
            EnsembleError: if ``items_per_step`` is not positive.
        """
        if not 0 < items_per_step < inf:
            raise EnsembleError(f"items_per_step: {items_per_step}; must be a number above 0")
        measured = {
            fact.gpus: fact.micro_steps_per_second
            / _MICRO
            * items_per_step
            * (fact.gpus if batch is BatchOf.GPU else 1)
            for fact in facts
            if not fact.extrapolated and fact.micro_steps_per_second
        }
        return cls.of(measured) if measured else None

    @property
    def least(self) -> int:
        """The smallest number of GPUs with a known rate."""
        return self.measured[0][0]

    @property
    def most(self) -> int:
        """The largest number of GPUs with a known rate."""
        return self.least + len(self.values) - 1

    def at(self, gpus: int) -> float:
        """Return the items per second with this number of GPUs, ``least`` to ``most``.

        >>> rates = MemberRates.of({1: 100, 2: 190, 3: 270})
        >>> rates.at(3), round(rates.at(4)), rates.most
        (270.0, 341, 6)

        Raises:
            EnsembleError: if the rate is unknown.
        """
        if not self.least <= gpus <= self.most:
            raise EnsembleError(f"gpus: {gpus}; rates are known for {self.least}..{self.most}")
        return self.values[gpus - self.least]

    def fastest(self, most: int) -> int:
        """Return the number of GPUs up to ``most`` with the highest rate; the fewest if equal."""
        known = self.values[: max(1, most - self.least + 1)]
        return self.least + known.index(max(known))

    def corrected(self, gpus: int, rate: float) -> "MemberRates":
        """Return the rates after ``rate`` was measured with ``gpus`` GPUs.

        An extrapolated rate becomes a measured one, because the others can be right. If the rate
        was measured before or is between measured ones, the member is slower or faster than before,
        and all rates are multiplied by the same factor.

        Raises:
            EnsembleError: if ``rate`` is not positive, or no rate is known for ``gpus``.
        """
        factor = rate / self.at(gpus)
        if gpus > self.measured[-1][0]:
            return MemberRates.of({**dict(self.measured), gpus: rate}, self.most)
        return MemberRates.of({each: factor * old for each, old in self.measured}, self.most)


def _values(anchors: Sequence[tuple[int, float]], most: int | None) -> Iterable[float]:
    """Yield the rates of all numbers of GPUs from the first measured one."""
    for lower, upper in pairwise(anchors):
        for gpus in range(lower[0], upper[0]):
            yield _by_pair(lower, upper, gpus)
    last, rate = anchors[-1]
    yield float(rate)
    if len(anchors) > 1 and anchors[-2][0] >= _FIRST_PAIR:
        limit = 2 * last if most is None else most
        for gpus in range(last + 1, limit + 1):
            # The same formula, for numbers of GPUs above the pair.
            yield min(_by_pair(anchors[-2], anchors[-1], gpus), gpus * rate / last)


def _by_pair(lower: tuple[int, float], upper: tuple[int, float], gpus: int) -> float:
    """Apply equation 1 with two measured numbers of GPUs; it gives back both rates."""
    (fewer, low), (more, high) = lower, upper
    if gpus == fewer:
        return float(low)
    factor = (high / more) / (low / fewer)
    change: float = factor ** ((gpus - more) / (more - fewer))
    return gpus * high / more * change


class ProfilingRange(NamedTuple):
    """Which numbers of GPUs FLEET measures: 1 to the larger of ``by_rates`` and ``by_nodes``.

    Attributes:
        by_rates: M_a, the GPUs that the slowest member would need for the highest rate that one GPU
            reaches, if it scaled without losses.
        by_nodes: M_b, the GPUs of two nodes.
    """

    by_rates: int
    by_nodes: int

    @property
    def most(self) -> int:
        """M_t, the largest number of GPUs that is measured."""
        return max(self.by_rates, self.by_nodes)


def profiling_range(one_gpu_rates: Iterable[float], gpus_per_node: int) -> ProfilingRange:
    """Return which numbers of GPUs to measure, from all members' rates with one GPU.

    The example of the paper:

    >>> profiling_range([176, 100, 21], gpus_per_node=4)
    ProfilingRange(by_rates=9, by_nodes=8)
    >>> _.most
    9

    Raises:
        EnsembleError: if there are no rates, or a value is not positive.
    """
    rates = list(one_gpu_rates)
    if not rates or not all(0 < rate < inf for rate in rates):
        raise EnsembleError(f"one_gpu_rates: {rates}; must be one or more numbers above 0")
    if gpus_per_node < 1:
        raise EnsembleError(f"gpus_per_node: {gpus_per_node}; must be at least 1")
    return ProfilingRange(ceil(max(rates) / min(rates)), 2 * gpus_per_node)
