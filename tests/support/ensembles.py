"""Small ensembles, and exhaustive searches to compare their plans with."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product

from gputopo.ensemble.model import EnsembleMember, EnsembleSettings, MemberPlacement, NodeGpuCount
from gputopo.ensemble.rates import MemberRates

PROBED_CORES = (1, 2, 4, 8, 16, 32)
"""Numbers of cores that FLEET measures."""

ANYWHERE = EnsembleSettings(one_node=False)


def member(
    name: str,
    rate: float = 100.0,
    items: float | None = 1000.0,
    loss: float = 0.05,
    *,
    measured: int = 4,
    most: int | None = None,
    max_gpus: int | None = None,
) -> EnsembleMember:
    """Return a member that loses a part of its rate with each GPU."""
    rates = {gpus: rate * gpus / (1 + loss * (gpus - 1)) for gpus in range(1, measured + 1)}
    return EnsembleMember(name, MemberRates.of(rates, most), items, max_gpus)


def nodes(*gpus: int) -> list[NodeGpuCount]:
    """Return the nodes ``n0``, ``n1`` and so on."""
    return [NodeGpuCount(f"n{number}", count) for number, count in enumerate(gpus)]


def on(name: str, **gpus: int) -> MemberPlacement:
    return MemberPlacement(name, tuple(NodeGpuCount(node, count) for node, count in gpus.items()))


def used(placements: Sequence[MemberPlacement]) -> dict[str, int]:
    """Return the GPUs in use by node."""
    found: dict[str, int] = {}
    for placement in placements:
        for node in placement.nodes:
            found[node.name] = found.get(node.name, 0) + node.gpus
    return found


def least_borders(sizes: Sequence[int], free: Sequence[int], *, one_node: bool) -> int | None:
    """Return the lowest score of all assignments; None if there is none."""

    @cache
    def search(place: int, left: tuple[int, ...]) -> int | None:
        if place == len(sizes):
            return 0
        scores = []
        for parts in product(*(range(min(sizes[place], free) + 1) for free in left)):
            count = sum(part > 0 for part in parts)
            if sum(parts) == sizes[place] and not (one_node and count > 1):
                rest = search(
                    place + 1, tuple(free - part for free, part in zip(left, parts, strict=True))
                )
                if rest is not None:
                    scores.append(rest + count - 1)
        return min(scores, default=None)

    return search(0, tuple(free))


def highest_pace(members: Sequence[EnsembleMember], gpus: int) -> float:
    """Return the highest rate that the slowest member can have, over all numbers of GPUs."""

    def rates_of(one: EnsembleMember) -> Mapping[int, float]:
        assert one.rates is not None
        return {count: one.rates.at(count) for count in range(1, min(gpus, one.rates.most) + 1)}

    known = [rates_of(one) for one in members]
    return max(
        min(rates[count] for rates, count in zip(known, counts, strict=True))
        for counts in product(*known)
        if sum(counts) <= gpus
    )
