"""Compares the patterns that counters show with the patterns that jobs use."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from math import exp, log
from random import Random
from typing import Final

import networkx as nx

from benchmarks.workloads.collectives import LAYOUTS, Traffic
from benchmarks.workloads.counted_job import USUAL, CountedJob, Disturbance, Job, server_links
from gputopo.catalogue import named
from gputopo.counters.link_peers import LinkPeers
from gputopo.counters.meter import TrafficMeter
from gputopo.counters.model import Traffic as CountedTraffic
from gputopo.patterns.model import PatternKind, build
from gputopo.topology.model import GpuIndex, LinkKind, NodeTopology

NONE: Final = "None"
UNKNOWN: Final = "unknown"
OTHER: Final = "other graph"
"""The traffic of a job is the graph of no pattern."""

CLASSES: Final = ("Ring", "AllToAll", "Chain", "Star", "Tree", "RingTree", NONE)

_FAULTS: Final = 0.1
"""Part of the jobs whose counters are reset or stop."""


@dataclass(slots=True)
class PatternScore:
    """Results of several jobs.

    Attributes:
        classes: number of jobs by the class of their graph and by the class that was reported.
        results: number of jobs by layout, and by ``right``, ``unknown`` or ``wrong``.
        errors: relative errors of the bytes per step.
        reasons: number of unknown patterns by reason.
    """

    classes: Counter[tuple[str, str]] = field(default_factory=Counter)
    results: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, job: Job) -> None:
        """Simulate a job and measure it."""
        counted = CountedJob(job)
        found = measure(counted, job)
        truth = class_of(counted.exchange.traffic, len(job.gpus))
        reported = _reported(found, len(job.gpus))
        self.classes[truth, reported] += 1
        self.results[job.layout, _result(truth, reported)] += 1
        if reported == UNKNOWN:
            self.reasons[found.unknown_reason if found else "no counters"] += 1
        if found and found.bytes_per_step and counted.exchange.bytes_per_step:
            self.errors.append(found.bytes_per_step / counted.exchange.bytes_per_step - 1)

    def percent(self, result: str, layout: str | None = None) -> float:
        """Return the share of the jobs with this result, of all layouts or of one."""
        chosen = {key: n for key, n in self.results.items() if layout in {None, key[0]}}
        return 100 * sum(n for key, n in chosen.items() if key[1] == result) / sum(chosen.values())


def measure(counted: CountedJob, job: Job) -> CountedTraffic | None:
    """Return what the meter finds in all counters of a job."""
    meter = TrafficMeter(job.gpus, job.peers)
    for readings, steps in counted.readings():
        meter.add(readings, steps)
    return meter.take()[0]


def drawn_jobs(
    topology: NodeTopology,
    sizes: Sequence[int],
    count: int,
    seed: int,
    *,
    linked: bool | None,
    disturbance: Disturbance = USUAL,
) -> Iterator[Job]:
    """Yield ``count`` jobs of each layout and size on random GPU sets.

    Args:
        topology: the server.
        sizes: numbers of GPUs.
        count: number of jobs of each layout and size.
        seed: of everything that is random.
        linked: whether all pairs of the sets have NVLinks; None for all sets.
        disturbance: noise and traffic that does not belong to the patterns.
    """
    random = Random(f"{seed} {topology.fingerprint} {linked}")  # noqa: S311 - repeatable
    host_links = len(topology.gpus) == 6  # noqa: PLR2004 - the processors of Summit have NVLinks
    peers = server_links(topology, random, host_links=host_links)
    for size in sizes:
        sets = [
            gpus
            for gpus in combinations([gpu.index for gpu in topology.gpus], size)
            if linked in {None, _is_linked(topology, gpus)}
        ]
        for layout in LAYOUTS if sets else ():
            for _ in range(count):
                yield replace(
                    _job(layout, random.choice(sets), peers, random), disturbance=disturbance
                )


def _job(layout: str, gpus: tuple[GpuIndex, ...], peers: LinkPeers, random: Random) -> Job:
    share = random.uniform(0.1, 0.9)
    return Job(
        layout,
        gpus,
        peers,
        seed=random.randrange(2**32),
        step_seconds=exp(random.uniform(log(0.05), log(3))),
        share=share,
        utilisation=max(0.03, 0.8 * share * exp(random.uniform(log(0.1), 0))),
        relayed=random.random() < 1 / 3,
        faults=random.random() < _FAULTS,
    )


def full_mesh(size: int, seed: int) -> NodeTopology:
    """Return a server in which every pair of GPUs has one or two NVLinks; none such exists."""
    random = Random(seed)  # noqa: S311 - repeatable
    base = named("dgx1-v100")
    links = [
        replace(base.links[0], a=GpuIndex(a), b=GpuIndex(b), count=n, bandwidth_mb_per_s=25_000 * n)
        for a, b in combinations(range(size), 2)
        for n in [random.choice((1, 2))]
    ]
    return NodeTopology(base.gpus[:size], tuple(links))


def _is_linked(topology: NodeTopology, gpus: Sequence[GpuIndex]) -> bool:
    return all(topology.link_of[pair].kind is LinkKind.NVLINK for pair in combinations(gpus, 2))


def class_of(traffic: Traffic, size: int) -> str:
    """Return the first of ``CLASSES`` whose graph is that of the traffic, by networkx."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(way for way, amount in traffic.items() if amount)
    if not graph.edges:
        return NONE
    return next((name for name in CLASSES[:-1] if _equal(name, size, graph)), OTHER)


def _equal(name: str, size: int, graph: "nx.Graph[int]") -> bool:
    return nx.is_isomorphic(_graph(name, size), graph)


@lru_cache(maxsize=128)
def _graph(name: str, size: int) -> "nx.Graph[int]":
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from((edge.a, edge.b) for edge in build(PatternKind(name), size).edges)
    return graph


def _reported(found: CountedTraffic | None, size: int) -> str:
    """Return the class of the reported pattern."""
    if found is None or found.pattern is None:
        return UNKNOWN
    if found.pattern.kind is None:
        return NONE
    graph = _graph(found.pattern.kind.value, size)
    return next(name for name in CLASSES if _equal(name, size, graph))


def _result(truth: str, reported: str) -> str:
    if reported == UNKNOWN:
        return UNKNOWN
    return "right" if reported == truth else "wrong"


def scored(jobs: Iterable[Job]) -> PatternScore:
    """Return the results of some jobs."""
    score = PatternScore()
    for job in jobs:
        score.add(job)
    return score
