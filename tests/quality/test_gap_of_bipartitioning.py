"""DRB against an exhaustive search on 2 sockets of 4 GPUs, over all job graphs up to 4 tasks."""

import random
from functools import cache
from statistics import fmean

import pytest

from gputopo.catalogue import named
from gputopo.mapping.mapper import Mapper
from gputopo.mapping.model import JobMapping, MappingJob, MappingNode
from gputopo.topology.model import GpuMask, indices_of
from gputopo.utility.interference import RunningNeighbour
from support.mapping import NOISY, QUIET, SETTINGS, BruteForce, job_graphs

STATES = 25
SERVERS = ("pcie-8gpu", "pcie-8gpu-l40s", "dgx1-v100")


@cache
def gaps(server: str) -> list[float]:
    """Return by how much DRB's utility is below the highest, for random states of each graph."""
    topology, source = named(server), random.Random(17)  # noqa: S311 - repeatable
    mapper, oracle = Mapper({"a": topology}, SETTINGS), BruteForce(topology)
    found = []
    for pattern in job_graphs(4):
        for _ in range(STATES):
            free = GpuMask(
                sum(1 << gpu for gpu in source.sample(range(8), source.randint(pattern.size, 8)))
            )
            used = indices_of(GpuMask(topology.mask & ~free))
            neighbours = (
                RunningNeighbour(source.choice([NOISY, QUIET]), GpuMask(1 << gpu)) for gpu in used
            )
            node = MappingNode(topology, free, tuple(neighbours))
            job = MappingJob(pattern, source.choice([NOISY, QUIET]))
            exact, drb = mapper.best(job, {"a": node}), mapper.by_bipartitioning(job, {"a": node})
            assert isinstance(exact, JobMapping)
            assert isinstance(drb, JobMapping)
            highest = oracle.highest_utility(job, node)
            assert exact.utility == pytest.approx(highest)
            found.append(highest - drb.utility)
    return found


def test_there_are_15_job_graphs_up_to_4_tasks() -> None:
    assert [pattern.size for pattern in job_graphs(4)].count(4) == 10
    assert len(list(job_graphs(4))) == 1 + 1 + 3 + 10


@pytest.mark.parametrize(
    ("server", "mean", "largest", "best"),
    [
        ("pcie-8gpu", 0.005, 0.1, 0.86),
        ("pcie-8gpu-l40s", 0.003, 0.12, 0.97),
        ("dgx1-v100", 0.005, 0.23, 0.95),
    ],
)
def test_gap_to_the_best_placement_is_small(
    server: str, mean: float, largest: float, best: float
) -> None:
    found = gaps(server)
    assert min(found) >= -1e-9
    assert fmean(found) <= mean
    assert max(found) <= largest
    assert sum(gap < 1e-9 for gap in found) / len(found) >= best
