"""All GPU sets of a server as the authors' program scores them.

It goes through every set in every order, and the first of equal scores wins. Sets come by
their last but one GPU and then by the others, ascending; so do the orders of one set. (That
the graph miner finds sets so was found by trial: it gives every figure that the program
printed, on all five servers.)
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
from gputopo_simulate.mapa.released.servers import PCIE_GB_PER_S, Server


def _equation_2(double: int, single: int, pcie: int) -> float:
    return float(predicted_gb_per_s(COEFFICIENTS, np.array([[double, single, pcie]]))[0])


NO_LINKS_GB_PER_S: Final = _equation_2(0, 0, 0)
"""12.34: what equation 2 makes of one GPU, and of an allocation that is still empty."""


@dataclass(frozen=True, slots=True)
class Ring:
    """GPUs in one order, and the two scores that the program gives them."""

    gpus: tuple[GpuIndex, ...]
    aggregate_gb_per_s: int
    effective_gb_per_s: float


@dataclass(frozen=True, slots=True)
class Offer:
    """A set of GPUs: its ring in ascending order, and the first best ring by each score."""

    mask: GpuMask
    ascending: Ring
    by_aggregate: Ring
    by_equation: Ring


class Scores:
    """Everything that the program ever computes about one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._offers: dict[int, tuple[Offer, ...]] = {}
        self._equation: dict[tuple[int, int, int], float] = {}

    def offers(self, size: int) -> tuple[Offer, ...]:
        """Return all sets of a size, in the program's order."""
        if size not in self._offers:
            sets = combinations(map(GpuIndex, range(self._server.gpus)), size)
            self._offers[size] = tuple(map(self._offer, sorted(sets, key=_found_by)))
        return self._offers[size]

    @cached_property
    def preserved_gb_per_s(self) -> NDArray[np.int64]:
        """Weight of the NVLinks among each set of GPUs, by mask: equation 3 without PCIe."""
        masks = np.arange(1 << self._server.gpus)
        total = np.zeros(len(masks), np.int64)
        for (a, b), weight in (*self._server.double.items(), *self._server.single.items()):
            total += weight * (masks >> a & masks >> b & 1)
        return total

    def _offer(self, gpus: tuple[GpuIndex, ...]) -> Offer:
        rings = [self._ring((gpus[0], *rest)) for rest in _ways_round(gpus[1:])]
        return Offer(
            mask=mask_of(gpus),
            ascending=rings[0],
            by_aggregate=max(rings, key=lambda ring: ring.aggregate_gb_per_s),
            by_equation=max(rings, key=lambda ring: ring.effective_gb_per_s),
        )

    def _ring(self, gpus: tuple[GpuIndex, ...]) -> Ring:
        """Score one order; a ring of two has its link twice, one GPU has none."""
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
        return Ring(gpus, aggregate, self._effective(double, single, pcie))

    def _effective(self, double: int, single: int, pcie: int) -> float:
        mix = double, single, pcie
        if mix not in self._equation:
            self._equation[mix] = _equation_2(*mix)
        return self._equation[mix]


@cache
def scores_of(server: Server) -> Scores:
    """Return the scores of a server, computed once: at most 0.6 s and 4 MB."""
    return Scores(server)


def _found_by(gpus: tuple[GpuIndex, ...]) -> tuple[tuple[GpuIndex, ...], tuple[GpuIndex, ...]]:
    return gpus[-2:-1], gpus


def _ways_round(gpus: tuple[GpuIndex, ...]) -> list[tuple[GpuIndex, ...]]:
    """Return the orders of a ring's other GPUs, each way round once, ascending."""
    return [order for order in permutations(gpus) if order[:1] <= order[-1:]]
