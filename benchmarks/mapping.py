"""How long the mapping by utility (SC '17) takes: on one node, on a cluster, and its cuts."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.measure import Timing, joined, milliseconds, timed
from benchmarks.options import Options
from benchmarks.table import show
from gputopo.catalogue import named
from gputopo.mapping.mapper import Mapper
from gputopo.mapping.model import MappingJob, MappingNode, UtilitySettings
from gputopo.mapping.partition import cluster_parts, machine_parts
from gputopo.patterns.model import Pattern, all_to_all, ring
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo.utility.interference import RunningNeighbour, SlowdownTable, WorkloadKind

_WORKLOADS: Final = tuple(WorkloadKind(f"w{number}") for number in range(4))
_SLOWDOWNS: Final = SlowdownTable(
    {
        (own, other): 1 + 0.1 * first + 0.05 * second
        for first, own in enumerate(_WORKLOADS)
        for second, other in enumerate(_WORKLOADS)
    }
)
_ON_ONE_NODE: Final = (
    ("power8-minsky", all_to_all(2)),
    ("dgx1-v100", ring(4)),
    ("dgx1-v100", all_to_all(4)),
    ("dgx1-v100", ring(8)),
    ("dgx-2", ring(4)),
    ("dgx-2", all_to_all(8)),
    ("dgx-2", ring(16)),
)
_ON_A_CLUSTER: Final = (
    ("power8-minsky", all_to_all(2), False),
    ("power8-minsky", all_to_all(8), True),
    ("dgx1-v100", ring(4), False),
    ("dgx1-v100", ring(16), True),
)


def run(options: Options) -> None:
    """Measure decisions that no cache knows, and the cuts that are made once."""
    states = 2 if options.quick else 40
    nodes = 20 if options.quick else 1_000
    _one_node(states)
    _cluster(nodes, 1 if options.quick else 10)
    _cuts(nodes)


def _one_node(states: int) -> None:
    rows = []
    for name, pattern in _ON_ONE_NODE:
        topology, source = named(name), random.Random(1)  # noqa: S311 - repeatable
        mapper = _mapper({"a": topology})
        jobs = [MappingJob(pattern, WorkloadKind(f"new {number}")) for number in range(states + 1)]
        mapper.best(jobs[0], {"a": MappingNode(topology, topology.mask)})  # the scale of the job
        timings = [
            timed(partial(mapper.best, job, {"a": node}), times=1)
            for job, node in zip(
                jobs[1:], _states(topology, pattern.size, states, source), strict=True
            )
        ]
        rows.append([_label(name, pattern), *_cells(joined(timings))])
    show("One node in random states", ["job", "median ms", "p99 ms", "CPU ms"], rows)


def _cluster(count: int, times: int) -> None:
    rows = []
    for name, pattern, several in _ON_A_CLUSTER:
        topology, source = named(name), random.Random(1)  # noqa: S311
        nodes = {
            f"n{number}": node for number, node in enumerate(_states(topology, 0, count, source))
        }
        mapper = _mapper(dict.fromkeys(nodes, topology))
        job = MappingJob(pattern, _WORKLOADS[0], several_nodes=several)
        first = timed(partial(mapper.best, job, nodes), times=1)
        again = timed(partial(mapper.best, job, nodes), times=times)
        states = len({(node.free, node.neighbours) for node in nodes.values()})
        where = "several nodes" if several else "one node"
        cells = [milliseconds(first.cpu), *_cells(again)]
        rows.append([f"{_label(name, pattern)}, {where}", f"{states:,}", *cells])
    head = ["job", "states", "first CPU ms", "again median ms", "p99 ms", "CPU ms"]
    show(f"{count:,} nodes in random states", head, rows)


def _cuts(count: int) -> None:
    dgx_2, minsky = named("dgx-2"), named("power8-minsky")
    cluster = {f"n{number}": minsky for number in range(count)}
    rows = [
        ["dgx-2", *_cells(timed(lambda: machine_parts(dgx_2), times=5))],
        [f"{count:,} nodes", *_cells(timed(lambda: cluster_parts(cluster), times=1))],
    ]
    show("Cuts of the physical graph, made once", ["graph", "median ms", "p99 ms", "CPU ms"], rows)


def _states(
    topology: NodeTopology, least: int, count: int, source: random.Random
) -> Iterator[MappingNode]:
    """Yield nodes with random free GPUs, and a neighbour on each of the others."""
    indices = [gpu.index for gpu in topology.gpus]
    for _ in range(count):
        free = source.sample(indices, source.randint(least, len(indices)))
        mask = GpuMask(sum(1 << index for index in free))
        used = indices_of(GpuMask(topology.mask & ~mask))
        neighbours = (
            RunningNeighbour(source.choice(_WORKLOADS), GpuMask(1 << gpu)) for gpu in used
        )
        yield MappingNode(topology, mask, tuple(neighbours))


def _mapper(topologies: dict[str, NodeTopology]) -> Mapper:
    return Mapper(topologies, UtilitySettings(slowdowns=_SLOWDOWNS))


def _label(name: str, pattern: Pattern) -> str:
    return f"{name} {pattern.kind} of {pattern.size}"


def _cells(timing: Timing) -> list[str]:
    return [milliseconds(each) for each in (timing.median, timing.p99, timing.cpu)]
