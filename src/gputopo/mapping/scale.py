"""Computes the best and worst costs of a job in a cluster, for the mapping."""

from collections.abc import Iterable
from itertools import combinations

from gputopo.mapping.drb import Bipartitioning
from gputopo.mapping.hardware import ClusterHardware, MachineHardware
from gputopo.mapping.model import MappingJob, MappingNode, UtilitySettings
from gputopo.mapping.orders import is_small, shortest_order
from gputopo.mapping.partition import ClusterPart
from gputopo.patterns.model import Pattern
from gputopo.topology.model import NodeTopology
from gputopo.utility.communication import LevelLengths, path_length
from gputopo.utility.cost import CostScale
from gputopo.utility.interference import WorkloadKind
from gputopo.utility.utility import UtilityWeights


def cost_scale(
    job: MappingJob,
    topologies: Iterable[NodeTopology],
    hardware: ClusterHardware,
    lengths: LevelLengths,
) -> CostScale:
    """Return the scale of a job in a cluster of these nodes."""
    kinds = hardware.kinds(topologies)
    known = [hardware.of(topology) for topology in kinds]
    longest = max(each.longest for each in known)
    if job.several_nodes:
        longest = 2 * max(max(each.to_network.values()) for each in known)
    found = [
        shortest_length(job.pattern, topology, hardware, lengths)
        for topology in kinds
        if len(topology.gpus) >= job.pattern.size
    ]
    largest = max(each.largest_socket for each in known)
    return CostScale(min(found) if found else _bound(job.pattern, known), longest, largest)


def shortest_length(
    pattern: Pattern, topology: NodeTopology, hardware: ClusterHardware, lengths: LevelLengths
) -> int:
    """Return the least weighted path length of a job on an idle node.

    If there are too many placements to compare, it is that of the placement that DRB chooses.
    """
    distances = hardware.of(topology).distances
    gpus = [gpu.index for gpu in topology.gpus]
    if is_small(pattern, len(gpus)):
        return min(
            shortest_order(pattern, chosen, lambda a, b: distances[a, b])[1]
            for chosen in combinations(gpus, pattern.size)
        )
    settings = UtilitySettings(UtilityWeights(1.0, 0.0, 0.0), lengths)
    nodes = {"idle": MappingNode(topology, topology.mask)}
    job = MappingJob(pattern, WorkloadKind("any"))
    drb = Bipartitioning(job, nodes, {"idle": pattern.size}, hardware, settings)
    placement = drb.place(ClusterPart(("idle",)))
    return path_length(pattern, lambda rank: placement[rank].gpu, lambda a, b: distances[a, b])


def _bound(pattern: Pattern, known: Iterable[MachineHardware]) -> int:
    """Return the path length if every edge had the shortest distance of the cluster."""
    shortest = min(
        (distance for each in known for (a, b), distance in each.distances.items() if a != b),
        default=0,
    )
    return shortest * sum(edge.weight for edge in pattern.edges)
