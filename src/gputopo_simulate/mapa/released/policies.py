"""The four policies of the authors' program, as they decide and not as the paper says.

Each takes the sets that are free, in the program's order, and returns the ring to allocate;
None is a job that is left waiting although enough GPUs are free.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.placement.model import PolicyName
from gputopo.topology.model import GpuMask
from gputopo_simulate.mapa.released.offers import NO_LINKS_GB_PER_S, Offer, Ring


@dataclass(frozen=True, slots=True)
class Situation:
    """What a policy is asked.

    Attributes:
        offers: the sets that are free; at least one.
        domain: GPUs of a PCIe domain.
        preserved_gb_per_s: of the GPUs of each mask.
    """

    offers: Sequence[Offer]
    size: int
    sensitive: bool
    free: GpuMask
    domain: int
    preserved_gb_per_s: NDArray[np.int64]


def baseline(situation: Situation) -> Ring | None:
    """Return the best-aggregate ring of the lowest free GPUs."""
    return situation.offers[0].by_aggregate


def topo_aware(situation: Situation) -> Ring | None:
    """Return the first set within a PCIe domain, its ring as it comes; else as baseline.

    Jobs as big as a domain are not looked at, and one GPU is the lowest.
    """
    if 1 < situation.size < situation.domain:
        for offer in situation.offers:
            first, *_, last = offer.ascending.gpus
            if first // situation.domain == last // situation.domain:
                return offer.ascending
    return baseline(situation)


def greedy(situation: Situation) -> Ring | None:
    """Return the ring of the highest aggregate bandwidth, sensitive or not."""
    best = max(situation.offers, key=lambda offer: offer.by_aggregate.aggregate_gb_per_s)
    return best.by_aggregate


def preserve(situation: Situation) -> Ring | None:
    """Return what is best for a sensitive job, or for those that come after any other.

    The search starts from an empty allocation. Its equation 2 is that of no links, so a
    sensitive job gets nothing that is not above 12.34 GB/s; it preserves nothing and has no
    aggregate, so one GPU gets nothing if no NVLink stays free.
    """
    if situation.sensitive and situation.size > 1:
        best = max(situation.offers, key=lambda offer: offer.by_equation.effective_gb_per_s)
        ring = best.by_equation
        return ring if ring.effective_gb_per_s > NO_LINKS_GB_PER_S else None
    left = [situation.free & ~offer.mask for offer in situation.offers]
    kept = situation.preserved_gb_per_s[left].tolist()
    preserved, aggregate, best = max(
        (
            (kept[place], offer.by_aggregate.aggregate_gb_per_s, offer)
            for place, offer in enumerate(situation.offers)
        ),
        key=lambda scored: scored[:2],
    )
    return best.by_aggregate if (preserved, aggregate) > (0, 0) else None


POLICIES: Final[Mapping[PolicyName, Callable[[Situation], Ring | None]]] = MappingProxyType(
    {
        PolicyName.BASELINE: baseline,
        PolicyName.TOPO_AWARE: topo_aware,
        PolicyName.GREEDY: greedy,
        PolicyName.PRESERVE: preserve,
    }
)
