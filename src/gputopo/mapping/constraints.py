"""How many ranks of a job each node can take (``filterHostsByConstraints`` of algorithm 1)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gputopo.mapping.model import MappingJob, MappingNode

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """The number of ranks that a node can take, and why not more."""

    ranks: int
    reason: str


def capacity(job: MappingJob, node: MappingNode) -> NodeCapacity:
    """Return how many ranks of a job a node can take, at most all of them."""
    if unwanted := job.avoid & node.labels:
        return NodeCapacity(0, f"runs workloads with label {min(unwanted)}, which the job avoids")
    if unwanted := node.avoided & job.labels:
        return NodeCapacity(0, f"runs a workload that avoids label {min(unwanted)} of the job")
    size, free = job.pattern.size, node.free.bit_count()
    ranks = min(size, free, _ranks_by_memory(job, node))
    if ranks == min(size, free):
        return NodeCapacity(ranks, f"needs {size} GPUs, {free} free")
    return NodeCapacity(
        ranks,
        f"needs {job.memory_gb_per_s:g} GB/s of memory bandwidth, {node.memory_gb_per_s:g} unused",
    )


def candidates(job: MappingJob, nodes: Mapping[str, MappingNode]) -> dict[str, int]:
    """Return the nodes that can take part in a mapping, with the ranks that each can take.

    A job of a single node needs a node that takes all ranks.
    """
    least = 1 if job.several_nodes else job.pattern.size
    ranks = {name: capacity(job, node).ranks for name, node in nodes.items()}
    return {name: count for name, count in ranks.items() if count >= least}


def misfits(job: MappingJob, nodes: Mapping[str, MappingNode]) -> dict[str, str]:
    """Return for each node why it cannot take the whole job."""
    found = {name: capacity(job, node) for name, node in nodes.items()}
    return {name: each.reason for name, each in found.items() if each.ranks < job.pattern.size}


def _ranks_by_memory(job: MappingJob, node: MappingNode) -> int:
    """Return the ranks whose memory bandwidth the node has; all ranks if it is unknown."""
    needed, unused, size = job.memory_gb_per_s_of_rank, node.memory_gb_per_s, job.pattern.size
    if needed is None or unused is None or needed * size <= unused:
        return size
    return math.floor(unused / needed + _TOLERANCE)
