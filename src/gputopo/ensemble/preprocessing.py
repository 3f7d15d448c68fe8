"""Chooses the CPU cores of the preprocessing that members share.

FLEET measures the throughput of a preprocessor with 1, 2, 4, 8, 16 and 32 cores. It sets the number
of preprocessors once, to the minimum that meets the demand of any M members with one GPU each
(supplement, section B.3). gputopo chooses for each flotilla: it takes the fewest measured cores
that meet the demand of its members with the GPUs that they have.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from gputopo.ensemble.rates import EnsembleError

PROBED_CORES: Final = (1, 2, 4, 8, 16, 32)
"""Numbers of cores that the paper measures."""


@dataclass(frozen=True, slots=True)
class PreprocessorChoice:
    """The cores of a preprocessor.

    Attributes:
        demand: items per second that it has to deliver.
        throughput: items per second that it delivers.
        reason: why the demand is not met; empty if it is met.
    """

    cores: int
    demand: float
    throughput: float
    reason: str = ""


def preprocessor_cores(
    rates: Iterable[float], throughput: Mapping[int, float], *, items_are_shared: bool
) -> PreprocessorChoice:
    """Return the fewest measured cores that meet the demand of members that train at once.

    If no measured number is enough, the one with the highest throughput is returned, with the
    reason.

    >>> preprocessor_cores([90, 60], {1: 50, 2: 98, 4: 190}, items_are_shared=True).cores
    2

    Args:
        rates: items per second of the members.
        throughput: measured items per second by number of cores.
        items_are_shared: whether each item is prepared once for all members, so that the fastest
            member is the demand. If not, the demand is the sum of all rates.

    Raises:
        EnsembleError: if no throughput was measured, or a value is not positive.
    """
    if not throughput:
        raise EnsembleError("throughput: no number of cores was measured; at least one is required")
    for cores, value in throughput.items():
        if cores < 1 or not 0 < value < inf:
            raise EnsembleError(f"throughput: {value} with {cores} cores; both must be above 0")
    known = list(rates)
    demand = float((max(known) if items_are_shared else sum(known)) if known else 0)
    for cores in sorted(throughput):
        if throughput[cores] >= demand:
            return PreprocessorChoice(cores, demand, throughput[cores])
    cores = max(throughput, key=lambda each: (throughput[each], -each))
    reason = f"{cores} cores deliver {throughput[cores]:g} of {demand:g} items per second"
    return PreprocessorChoice(cores, demand, throughput[cores], reason)
