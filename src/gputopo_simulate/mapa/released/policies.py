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
        gpu_sets: all sets of free GPUs with the size of the job; at least one set.
        domain: number of GPUs in each PCIe domain of the server.
        preserved_gb_per_s: for each mask of free GPUs, total bandwidth of the NVLinks among them.
    """

    gpu_sets: Sequence[ScoredGpuSet]
    size: int
    sensitive: bool
    free: GpuMask
    domain: int
    preserved_gb_per_s: NDArray[np.int64]


def baseline(given: PolicyInput) -> ScoredRing | None:
    """Return the ring with the highest aggregate bandwidth in the first free GPU set."""
    return given.gpu_sets[0].by_aggregate


def topo_aware(given: PolicyInput) -> ScoredRing | None:
    """Return the first GPU set within one PCIe domain, as a ring in ascending order of the GPUs.

    Return the result of :func:`baseline` if there is no such set, if the job has one GPU, or if the
    job has at least as many GPUs as a domain.
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
    """Return the ring of GPUs for the job, or None if the job waits.

    A sensitive job of several GPUs gets the ring with the highest effective bandwidth (equation 2).
    It waits if this bandwidth is at most 12.34 GB/s, the value of equation 2 for GPUs without
    links.

    Any other job gets the ring that preserves the most bandwidth of NVLinks among the GPUs that
    stay free; of equal rings, the ring with the highest aggregate bandwidth. The job waits if
    preserved and aggregate bandwidth are both 0. The aggregate bandwidth of one GPU is 0.
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
