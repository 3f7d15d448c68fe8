"""How well bandwidth models rank GPU sets: ``python -m benchmarks.compare_bandwidth_models``.

It uses two sources: MAPA's equation 2 on the machine that it was fitted on, in place of its 31
measurements, which were not published; and
published measurements of NCCL's all-reduce.

docs/studies/bandwidth-models.md explains the result.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import show
from gputopo.bandwidth.capacity import LinkCapacities
from gputopo.bandwidth.models import AGGREGATE, EQ2, PHYSICAL
from gputopo.catalogue import named
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.model import ring
from gputopo.topology.model import GpuIndex, LinkKind, NodeTopology, mask_of
from gputopo.topology.rates import link_rate_mb_per_s

PUBLISHED: Final = Path(__file__).parents[1] / "tests" / "data" / "nccl" / "published.csv"

EQ2_RMSE_GB_PER_S: Final = 8.44
"""The true error of equation 2 (see gputopo.bandwidth.fit): smaller differences are not clear."""

_SIZES: Final = range(2, 6)

Values = NDArray[np.float64]


def aggregate(topology: NodeTopology, size: int) -> Values:
    """Return the sum over the best ring."""
    return embeddings(topology, ring(size)).aggregate_mb_per_s / 1000


def per_edge(topology: NodeTopology, size: int) -> Values:
    """Return the mean over the best ring."""
    return aggregate(topology, size) / size


def slowest_link(topology: NodeTopology, size: int) -> Values:
    """Return the slowest link of the best ring."""
    orders = embeddings(topology, ring(size)).orders.tolist()
    links = topology.link_of
    return np.array(
        [
            min(
                links[GpuIndex(order[edge.a]), GpuIndex(order[edge.b])].bandwidth_mb_per_s / 1000
                for edge in ring(size).edges
            )
            for order in orders
        ]
    )


def narrowest_cut(topology: NodeTopology, size: int) -> Values:
    """Return the narrowest cut, one half of the physical model."""
    members = embeddings(topology, ring(size)).orders.T
    cuts = LinkCapacities.from_topology(topology).across(members).astype(np.float64)
    return np.asarray(cuts.min(axis=0) / 1000)


def physical(topology: NodeTopology, size: int) -> Values:
    """Return the physical model."""
    table = embeddings(topology, ring(size))
    return PHYSICAL.effective_mb_per_s(topology, ring(size), table) / 1000


def equation_2(topology: NodeTopology, size: int) -> Values:
    """Return equation 2."""
    table = embeddings(topology, ring(size))
    return EQ2.effective_mb_per_s(topology, ring(size), table) / 1000


JUDGES: Final[Mapping[str, Callable[[NodeTopology, int], Values]]] = {
    AGGREGATE.name: aggregate,
    "aggregate per edge": per_edge,
    "slowest link of best ring": slowest_link,
    "narrowest cut": narrowest_cut,
    PHYSICAL.name: physical,
}


def ranks(values: Values) -> Values:
    """Return the rank of each value; equal values have the mean of their ranks."""
    ordered = np.sort(values)
    left, right = np.searchsorted(ordered, values), np.searchsorted(ordered, values, "right")
    return (left + right - 1) / 2


def spearman(truth: Values, guess: Values) -> float:
    """Return the rank correlation; 0 if all values of one side are equal."""
    pair = ranks(truth), ranks(guess)
    if min(map(np.ptp, pair)) == 0:
        return 0.0
    return float(np.corrcoef(*pair)[0, 1])


def concordance(truth: Values, guess: Values, apart: float) -> float:
    """Return the share of pairs in the right order; one half for pairs with equal guesses.

    Args:
        truth: the values to rank.
        guess: the values of a model.
        apart: pairs whose truth differs by less do not count.
    """
    ahead = truth[:, None] - truth[None] > apart
    step = guess[:, None] - guess[None]
    return float(np.where(step > 0, 1.0, np.where(step == 0, 0.5, 0.0))[ahead].mean())


def against_equation_2() -> None:
    """Print how each judge ranks the 210 sets of 2 to 5 GPUs of a DGX-1 V100."""
    topology = named("dgx1-v100")
    truths = [equation_2(topology, size) for size in _SIZES]
    rows = []
    for name, judge in JUDGES.items():
        guesses = [judge(topology, size) for size in _SIZES]
        pairs = list(zip(truths, guesses, strict=True))
        all_truths, all_guesses = np.concatenate(truths), np.concatenate(guesses)
        rows.append(
            (
                name,
                *(f"{spearman(*pair):.2f}" for pair in pairs),
                f"{mean(spearman(*pair) for pair in pairs):.3f}",
                f"{mean(concordance(*pair, 0) for pair in pairs):.3f}",
                f"{mean(concordance(*pair, EQ2_RMSE_GB_PER_S) for pair in pairs):.3f}",
                f"{spearman(all_truths, all_guesses):.3f}",
            )
        )
    show(
        "Sets of a DGX-1 V100, ranked as by MAPA's equation 2 (Spearman by number of GPUs and on"
        " average; pairs in the right order, all and those further apart than its error;"
        " Spearman over all sizes)",
        ("model", *map(str, _SIZES), "mean", "pairs", "clear pairs", "pooled"),
        rows,
    )


@dataclass(frozen=True, slots=True)
class Measurement:
    """A published measurement; ``gpus`` as numbered in the catalogue."""

    topology: NodeTopology
    gpus: tuple[GpuIndex, ...]
    gb_per_s: float
    machine: str


def published() -> Iterator[Measurement]:
    """Return the measurements of the file."""
    lines = (line for line in PUBLISHED.read_text().splitlines() if not line.startswith("#"))
    for row in csv.DictReader(lines):
        topology = named(row["topology"])
        if row["pcie_version"]:
            topology = _with_pcie(topology, int(row["pcie_version"]))
        gpus = tuple(GpuIndex(int(index)) for index in row["gpus"].split("-"))
        yield Measurement(topology, gpus, float(row["busbw_gbps"]), row["machine"])


def _with_pcie(topology: NodeTopology, version: int) -> NodeTopology:
    return replace(
        topology,
        links=tuple(
            replace(
                link,
                version=version,
                bandwidth_mb_per_s=link_rate_mb_per_s(LinkKind.PCIE, version, link.count),
            )
            if link.kind is LinkKind.PCIE
            else link
            for link in topology.links
        ),
    )


def against_measurements() -> None:
    """Print the values of each judge for the published measurements, and how it ranks them."""
    measurements = list(published())
    guesses = {
        name: [_of_set(judge, one) for one in measurements] for name, judge in JUDGES.items()
    }
    rows = [
        (
            f"{one.machine}: {len(one.gpus)} GPUs",
            f"{one.gb_per_s:g}",
            *(f"{values[place]:.1f}" for values in guesses.values()),
        )
        for place, one in enumerate(measurements)
    ]
    truth = np.array([one.gb_per_s for one in measurements])
    right = (concordance(truth, np.array(values), 0) for values in guesses.values())
    rows.append(("pairs in the right order", "", *(f"{share:.2f}" for share in right)))
    show("Published all-reduce bus bandwidths, GB/s", ("machine", "measured", *JUDGES), rows)


def _of_set(judge: Callable[[NodeTopology, int], Values], one: Measurement) -> float:
    sets = embeddings(one.topology, ring(len(one.gpus))).sets
    place = np.flatnonzero(sets == mask_of(one.gpus))[0]
    return float(judge(one.topology, len(one.gpus))[place])


def distinguished() -> None:
    """Print how many values each judge has for the sets of servers with one type of links."""
    rows = [
        (
            f"{name}, {size} of {len(named(name).gpus)} GPUs",
            *(str(len(np.unique(judge(named(name), size)))) for judge in JUDGES.values()),
        )
        for name in ("pcie-8gpu", "pcie-8gpu-l40s", "dgx-a100")
        for size in (2, 4)
    ]
    show("Different values for the sets of a server", ("server", *JUDGES), rows)


def main() -> None:
    """Print all comparisons."""
    against_equation_2()
    against_measurements()
    distinguished()


if __name__ == "__main__":
    main()
