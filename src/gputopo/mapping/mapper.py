"""Map a job to the best GPUs of a cluster. This module is the entry point of the package."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from cachetools import LRUCache

from gputopo.mapping.constraints import candidates, misfits
from gputopo.mapping.drb import Bipartitioning
from gputopo.mapping.evaluate import PlacementEvaluation
from gputopo.mapping.exact import best_placement
from gputopo.mapping.hardware import ClusterHardware
from gputopo.mapping.model import (
    ClusterGpu,
    JobMapping,
    MappingJob,
    MappingNode,
    NoMapping,
    UtilitySettings,
)
from gputopo.mapping.orders import is_small
from gputopo.mapping.partition import ClusterPart, cluster_parts
from gputopo.mapping.scale import cost_scale
from gputopo.topology.model import NodeTopology, indices_of
from gputopo.utility.cost import CostScale, UtilityError

_CACHED_PLACEMENTS: Final = 16_384
"""Placements by job and state of the node; each has about 2 KB."""


class Mapper:
    """Maps jobs to the nodes of one cluster, whose hardware does not change.

    A mapping depends only on the job and the states of the nodes: equal arguments give an equal
    result, in any order of calls.
    """

    def __init__(
        self, topologies: Mapping[str, NodeTopology], settings: UtilitySettings | None = None
    ) -> None:
        """Take the nodes of the cluster by name.

        Raises:
            UtilityError: if no node has a GPU.
        """
        self._topologies = {name: each for name, each in topologies.items() if each.gpus}
        if not self._topologies:
            raise UtilityError("nodes: none has a GPU; at least one is needed")
        self._settings = UtilitySettings() if settings is None else settings
        self._hardware = ClusterHardware(self._settings.lengths)
        self._all_parts: ClusterPart | None = None
        self._scales: dict[tuple[object, bool], CostScale] = {}
        self._placements = LRUCache[Hashable, JobMapping](_CACHED_PLACEMENTS)

    def best(self, job: MappingJob, nodes: Mapping[str, MappingNode]) -> JobMapping | NoMapping:
        """Return the placement with the highest utility that all constraints allow.

        A job of one node gets the best node. If several nodes have the highest utility, it is the
        one with the fewest free GPUs, and of these the first by name. A job that can run on several
        nodes is also mapped to all nodes together, and gets the better placement.

        Args:
            job: the job.
            nodes: state of nodes of this cluster; nodes that are missing are not used.
        """
        ranks = candidates(job, nodes)
        whole = [name for name, count in ranks.items() if count == job.pattern.size]
        found = [self.on_node(job, name, nodes[name]) for name in _different(whole, nodes)]
        if job.several_nodes and sum(ranks.values()) >= job.pattern.size:
            found.append(self._place(job, nodes, ranks, self._parts()))
        if not found:
            return NoMapping(misfits(job, nodes))
        return max(found, key=lambda mapping: mapping.utility)

    def on_node(self, job: MappingJob, name: str, node: MappingNode) -> JobMapping:
        """Return the best placement on one node that can take all ranks.

        All placements are compared if there are few (:func:`.orders.is_small`), otherwise DRB
        chooses one. The result is kept for all nodes of the same state.
        """
        key = job, node.topology.fingerprint, node.free, node.neighbours
        found = self._placements.get(key)
        if found is None:
            ranks = {name: job.pattern.size}
            found = self._place(job, {name: node}, ranks, ClusterPart((name,)))
            self._placements[key] = found
        return replace(found, gpus=tuple(ClusterGpu(name, gpu) for _, gpu in found.gpus))

    def by_bipartitioning(
        self, job: MappingJob, nodes: Mapping[str, MappingNode]
    ) -> JobMapping | NoMapping:
        """Return the placement that DRB chooses, also if all placements could be compared."""
        ranks = candidates(job, nodes)
        if sum(ranks.values()) < job.pattern.size:
            return NoMapping(misfits(job, nodes))
        gpus = self._bipartitioned(job, nodes, ranks, self._parts())
        return self._evaluation(job, nodes).mapping(gpus, exact=False)

    def evaluated(
        self,
        job: MappingJob,
        nodes: Mapping[str, MappingNode],
        gpus: Sequence[ClusterGpu],
    ) -> JobMapping:
        """Return a placement that the caller has chosen, with its utilities.

        Args:
            job: the job.
            nodes: state of the nodes of these GPUs.
            gpus: a free GPU for each rank.
        """
        return self._evaluation(job, nodes).mapping(gpus, exact=False)

    def _place(
        self,
        job: MappingJob,
        nodes: Mapping[str, MappingNode],
        ranks: Mapping[str, int],
        part: ClusterPart,
    ) -> JobMapping:
        evaluation = self._evaluation(job, nodes)
        gpus = [ClusterGpu(name, gpu) for name in ranks for gpu in indices_of(nodes[name].free)]
        if is_small(job.pattern, len(gpus)):
            return evaluation.mapping(best_placement(evaluation, gpus, ranks), exact=True)
        return evaluation.mapping(self._bipartitioned(job, nodes, ranks, part), exact=False)

    def _bipartitioned(
        self,
        job: MappingJob,
        nodes: Mapping[str, MappingNode],
        ranks: Mapping[str, int],
        part: ClusterPart,
    ) -> tuple[ClusterGpu, ...]:
        return Bipartitioning(job, nodes, ranks, self._hardware, self._settings).place(part)

    def _parts(self) -> ClusterPart:
        if self._all_parts is None:
            self._all_parts = cluster_parts(self._topologies, self._settings.lengths)
        return self._all_parts

    def _evaluation(self, job: MappingJob, nodes: Mapping[str, MappingNode]) -> PlacementEvaluation:
        key = job.pattern, job.several_nodes
        if key not in self._scales:
            lengths = self._settings.lengths
            self._scales[key] = cost_scale(job, self._topologies.values(), self._hardware, lengths)
        return PlacementEvaluation(job, nodes, self._scales[key], self._hardware, self._settings)


def _different(names: Iterable[str], nodes: Mapping[str, MappingNode]) -> list[str]:
    """Return nodes with different states, by fewest free GPUs, then by name.

    Of nodes with equal GPUs, free GPUs and neighbours only the first is returned: the others have
    an equal placement, and would not be chosen.
    """
    first: dict[object, str] = {}
    for name in sorted(names, key=lambda name: (nodes[name].free.bit_count(), name)):
        node = nodes[name]
        first.setdefault((node.topology.fingerprint, node.free, node.neighbours), name)
    return list(first.values())
