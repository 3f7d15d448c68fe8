"""Constraints limit how many ranks of a job a node takes."""

import pytest

from gputopo.catalogue import named
from gputopo.mapping.constraints import NodeCapacity, candidates, capacity, misfits
from gputopo.mapping.model import MappingJob, MappingNode
from gputopo.patterns.model import ring
from support.builders.topologies import gpus
from support.mapping import QUIET

MINSKY = named("power8-minsky")


def node(free: int = 4, **fields: object) -> MappingNode:
    return MappingNode(MINSKY, gpus(*range(free)), **fields)  # type: ignore[arg-type]


def job(size: int, **fields: object) -> MappingJob:
    return MappingJob(ring(size), QUIET, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("of_job", "of_node", "ranks"),
    [
        (job(3), node(4), 3),
        (job(3), node(2), 2),
        (job(3), node(0), 0),
        (job(2, memory_gb_per_s=80.0), node(4, memory_gb_per_s=79.0), 1),
        (job(2, memory_gb_per_s=80.0), node(4, memory_gb_per_s=80.0), 2),
        (job(3, memory_gb_per_s=0.3), node(4, memory_gb_per_s=0.1 + 0.1), 2),
        (job(2, memory_gb_per_s=80.0), node(4), 2),
        (job(2), node(4, memory_gb_per_s=1.0), 2),
        (job(2, memory_gb_per_s=0.0), node(4, memory_gb_per_s=0.0), 2),
        (job(2, memory_gb_per_s=5e-324), node(4, memory_gb_per_s=1e300), 2),
        (job(2, memory_gb_per_s=1e300), node(4, memory_gb_per_s=0.0), 0),
        (job(2, avoid=frozenset({"a"})), node(4, labels=frozenset({"b"})), 2),
        (job(2, avoid=frozenset({"a"})), node(4, labels=frozenset({"a", "b"})), 0),
        (job(2, labels=frozenset({"a"})), node(4, avoided=frozenset({"a"})), 0),
        (job(2, labels=frozenset({"a"})), node(4, labels=frozenset({"a"})), 2),
    ],
)
def test_capacity_is_the_number_of_ranks_that_all_constraints_allow(
    of_job: MappingJob, of_node: MappingNode, ranks: int
) -> None:
    assert capacity(of_job, of_node).ranks == ranks


@pytest.mark.parametrize(
    ("of_job", "of_node", "reason"),
    [
        (job(3), node(2), "needs 3 GPUs, 2 free"),
        (
            job(2, memory_gb_per_s=80.0),
            node(4, memory_gb_per_s=79.5),
            "needs 80 GB/s of memory bandwidth, 79.5 unused",
        ),
        (
            job(1, avoid=frozenset({"z", "noisy"})),
            node(4, labels=frozenset({"noisy", "z"})),
            "runs workloads with label noisy, which the job avoids",
        ),
        (
            job(1, labels=frozenset({"noisy"})),
            node(4, avoided=frozenset({"noisy"})),
            "runs a workload that avoids label noisy of the job",
        ),
    ],
)
def test_reason_names_the_constraint(of_job: MappingJob, of_node: MappingNode, reason: str) -> None:
    assert capacity(of_job, of_node).reason == reason
    assert misfits(of_job, {"a": of_node, "b": node(4)}) == {"a": reason}


def test_job_of_one_node_needs_a_node_that_takes_all_ranks() -> None:
    nodes = {"a": node(1), "b": node(2), "c": node(0)}
    assert candidates(job(2), nodes) == {"b": 2}
    assert candidates(job(2, several_nodes=True), nodes) == {"a": 1, "b": 2}


def test_lack_of_gpus_is_named_before_lack_of_memory_bandwidth() -> None:
    found = capacity(job(4, memory_gb_per_s=8.0), node(2, memory_gb_per_s=4.0))
    assert found == NodeCapacity(2, "needs 4 GPUs, 2 free")
