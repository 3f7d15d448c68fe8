"""The four policies of the authors' program, which differ from the paper.

Each policy gets the free GPU sets in the program's order. It returns the ring to allocate, or None
if the job waits although enough GPUs are free.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.placement.model import PolicyName
from gputopo.topology.model import GpuMask
from gputopo_simulate.mapa.released.scores import NO_LINKS_GB_PER_S, ScoredGpuSet, ScoredRing


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """A job's size and sensitivity, and the state of the server.

    Attributes:
        gpu_sets: the sets of free GPUs with the size of the job; at least one.
        domain: number of GPUs of a PCIe domain.
        preserved_gb_per_s: sum of the NVLink weights within a GPU set, by mask.
    """

    gpu_sets: Sequence[ScoredGpuSet]
    size: int
    sensitive: bool
    free: GpuMask
    domain: int
    preserved_gb_per_s: NDArray[np.int64]


def baseline(given: PolicyInput) -> ScoredRing | None:
    """Return the ring with the highest aggregate bandwidth on the lowest free GPUs."""
    return given.gpu_sets[0].by_aggregate


def topo_aware(given: PolicyInput) -> ScoredRing | None:
    """Return the ascending ring of the first set that is within one PCIe domain.

    If there is no such set, return the result of :func:`baseline`. Jobs of one GPU, and jobs that
    are not smaller than a domain, also get this result.
    """
    if 1 < given.size < given.domain:
        for each in given.gpu_sets:
            first, *_, last = each.ascending.gpus
            if first // given.domain == last // given.domain:
                return each.ascending
    return baseline(given)


def greedy(given: PolicyInput) -> ScoredRing | None:
    """Return the ring with the highest aggregate bandwidth."""
    best = max(given.gpu_sets, key=lambda each: each.by_aggregate.aggregate_gb_per_s)
    return best.by_aggregate


def preserve(given: PolicyInput) -> ScoredRing | None:
    """Return the ring with the best equation 2 (sensitive jobs) or preserved bandwidth (others).

    The program compares all sets with an empty set, to which equation 2 gives 12.34 GB/s. So a
    sensitive job waits if no set has a higher value. The empty set has no preserved and no
    aggregate bandwidth. So a job of one GPU waits if no NVLink would stay free.
    """
    if given.sensitive and given.size > 1:
        best = max(given.gpu_sets, key=lambda each: each.by_equation.effective_gb_per_s)
        ring = best.by_equation
        return ring if ring.effective_gb_per_s > NO_LINKS_GB_PER_S else None

    def kept_and_aggregate(each: ScoredGpuSet) -> tuple[int, int]:
        kept = given.preserved_gb_per_s[given.free & ~each.mask]
        return int(kept), each.by_aggregate.aggregate_gb_per_s

    best = max(given.gpu_sets, key=kept_and_aggregate)
    return best.by_aggregate if kept_and_aggregate(best) > (0, 0) else None


POLICIES: Final[Mapping[PolicyName, Callable[[PolicyInput], ScoredRing | None]]] = MappingProxyType(
    {
        PolicyName.BASELINE: baseline,
        PolicyName.TOPO_AWARE: topo_aware,
        PolicyName.GREEDY: greedy,
        PolicyName.PRESERVE: preserve,
    }
)
