"""Scores of all GPU sets of a server, as the authors' program computes them.

The program scores every permutation of every GPU set. If several GPU sets have equal scores, the
program uses the first set. So the order of the sets matters. Here the sets are sorted by their
second-highest GPU, then by all GPUs: {1, 2, 3} comes before {0, 3, 4}, because 2 < 3. This order
was found by experiments: with it, this module reproduces every printed figure on all five servers.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, pairwise, permutations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.eq2 import COEFFICIENTS
from gputopo.bandwidth.link_mix import predicted_gb_per_s
from gputopo.topology.model import GpuIndex, GpuMask, mask_of
from gputopo_simulate.mapa.released.servers import PCIE_GB_PER_S, MapaServer


def _equation_2(double: int, single: int, pcie: int) -> float:
    return float(predicted_gb_per_s(COEFFICIENTS, np.array([[double, single, pcie]]))[0])


NO_LINKS_GB_PER_S: Final = _equation_2(0, 0, 0)
"""The value of equation 2 for one GPU or no GPU: 12.34."""


@dataclass(frozen=True, slots=True)
class ScoredRing:
    """A ring: its GPUs in order, its aggregate bandwidth, and its value of equation 2."""

    gpus: tuple[GpuIndex, ...]
    aggregate_gb_per_s: int
    effective_gb_per_s: float


@dataclass(frozen=True, slots=True)
class ScoredGpuSet:
    """A GPU set and three of its rings: ascending, best aggregate bandwidth, best by equation 2."""

    mask: GpuMask
    ascending: ScoredRing
    by_aggregate: ScoredRing
    by_equation: ScoredRing


class ServerScores:
    """Scores of the GPU sets of one server. They are computed on first use."""

    def __init__(self, server: MapaServer) -> None:
        self._server = server
        self._gpu_sets: dict[int, tuple[ScoredGpuSet, ...]] = {}
        self._equation: dict[tuple[int, int, int], float] = {}

    def gpu_sets(self, size: int) -> tuple[ScoredGpuSet, ...]:
        """Return all GPU sets of a size, in the order in which MAPA's program tries them."""
        if size not in self._gpu_sets:
            sets = combinations(map(GpuIndex, range(self._server.gpus)), size)
            self._gpu_sets[size] = tuple(map(self._score, sorted(sets, key=_miner_order)))
        return self._gpu_sets[size]

    @cached_property
    def preserved_gb_per_s(self) -> NDArray[np.int64]:
        """For each mask of free GPUs, bandwidth of the NVLinks among them (equation 3, no PCIe)."""
        masks = np.arange(1 << self._server.gpus)
        total = np.zeros(len(masks), np.int64)
        for (a, b), weight in (*self._server.double.items(), *self._server.single.items()):
            total += weight * (masks >> a & masks >> b & 1)
        return total

    def _score(self, gpus: tuple[GpuIndex, ...]) -> ScoredGpuSet:
        rings = [self._ring((gpus[0], *rest)) for rest in _ring_orders(gpus[1:])]
        return ScoredGpuSet(
            mask=mask_of(gpus),
            ascending=rings[0],
            by_aggregate=max(rings, key=lambda ring: ring.aggregate_gb_per_s),
            by_equation=max(rings, key=lambda ring: ring.effective_gb_per_s),
        )

    def _ring(self, gpus: tuple[GpuIndex, ...]) -> ScoredRing:
        """Score the ring through GPUs in this order. A ring of two GPUs counts its link twice."""
        double = single = pcie = aggregate = 0
        for a, b in pairwise((*gpus, gpus[0])) if len(gpus) > 1 else ():
            link = (min(a, b), max(a, b))
            if link in self._server.double:
                double += 1
                aggregate += self._server.double[link]
            elif link in self._server.single:
                single += 1
                aggregate += self._server.single[link]
            else:
                pcie += 1
                aggregate += PCIE_GB_PER_S
        return ScoredRing(gpus, aggregate, self._effective(double, single, pcie))

    def _effective(self, double: int, single: int, pcie: int) -> float:
        mix = double, single, pcie
        if mix not in self._equation:
            self._equation[mix] = _equation_2(*mix)
        return self._equation[mix]


@cache
def scores_of(server: MapaServer) -> ServerScores:
    """Return the scores of a server. They are cached, and take at most 0.6 s and 4 MB."""
    return ServerScores(server)


def _miner_order(gpus: tuple[GpuIndex, ...]) -> tuple[tuple[GpuIndex, ...], tuple[GpuIndex, ...]]:
    return gpus[-2:-1], gpus


def _ring_orders(gpus: tuple[GpuIndex, ...]) -> list[tuple[GpuIndex, ...]]:
    """Return the orders of ``gpus``, but no order that is the reverse of another in the list."""
    return [order for order in permutations(gpus) if order[:1] <= order[-1:]]
