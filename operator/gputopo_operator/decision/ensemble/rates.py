"""Computes the rates of a member from all sources, and how much of its work is done."""

from collections.abc import Mapping, Sequence
from typing import Final

from gputopo.api.ensemble import EnsembleMemberSpec, GPUEnsembleSpec
from gputopo.api.profile import Measurement, ScalingFact
from gputopo.ensemble.rates import BatchOf, MemberRates

MICRO: Final = 1_000_000
SAME_RATE: Final = 1.05
"""Ratio of two measured rates up to which two members can wait for each other."""

LARGEST: Final = 2**53 - 1
"""The largest number in a status."""


def known_rates(member: EnsembleMemberSpec, facts: Sequence[ScalingFact]) -> MemberRates | None:
    """Return the rates of a member in items per second; None if none is known."""
    declared = {each.gpus: float(each.items_per_second) for each in member.rates}
    measured = MemberRates.of_facts(facts, member.batch_size, BatchOf(member.batch_of))
    return MemberRates.combined(declared, measured)


def with_measured(
    rates: MemberRates | None, gpus: int, measured: float | None, most: float
) -> MemberRates | None:
    """Return the rates after ``measured`` items per second were measured with ``gpus`` GPUs.

    They are unchanged if the measured rate differs from the known one by at most the part ``most``.
    """
    if measured is None:
        return rates
    if rates is None:
        return MemberRates.of({gpus: measured})
    if not rates.least <= gpus <= rates.most:
        return MemberRates.of({**dict(rates.measured), gpus: measured})
    if abs(measured / rates.at(gpus) - 1) <= most:
        return rates
    return rates.corrected(gpus, measured)


def measured_items(member: EnsembleMemberSpec, found: Measurement | None) -> float | None:
    """Return the measured items per second of a running pod; None if the rate is not steady."""
    if found is None or found.state != "Steady" or not found.micro_steps_per_second:
        return None
    gpus = found.gpus if member.batch_of == "GPU" else 1
    return found.micro_steps_per_second / MICRO * member.batch_size * gpus


def limited_by_others(
    spec: GPUEnsembleSpec, measured: Mapping[str, float | None]
) -> frozenset[str]:
    """Return the members whose measured rates can be lower because they wait for each other.

    If each item is prepared once for all members, all of them have the rate of the slowest one.
    """
    rates = {name: rate for name, rate in measured.items() if rate}
    if spec.preprocessing is None or not spec.preprocessing.shared or not rates:
        return frozenset()
    most = min(rates.values()) * SAME_RATE
    slowest = frozenset(name for name, rate in rates.items() if rate <= most)
    return slowest if len(slowest) > 1 else frozenset()


def total_items(member: EnsembleMemberSpec, spec: GPUEnsembleSpec) -> int | None:
    """Return the items that a member processes until it ends; None if this is unknown."""
    if member.epochs is not None and spec.items_per_epoch is not None:
        return min(LARGEST, member.epochs * spec.items_per_epoch)
    return None if member.steps is None else min(LARGEST, member.steps * member.batch_size)


def micro(rate: float) -> int:
    """Return items per second, times 10^6, as a number that the status can have; at least 1."""
    return max(1, min(LARGEST, round(rate * MICRO)))
