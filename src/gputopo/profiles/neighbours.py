"""The slowdown beside another workload (interference; SC17, section 3 and figure 6).

Time per step beside the neighbour is compared with time per step alone, with equal numbers of GPUs,
similar bandwidth and similar CPUs. There are two scopes:

- ``Socket``: the only neighbour on the socket is the workload, possibly with several pods. Alone
  means without neighbours on the socket. Neighbours on other sockets are ignored.
- ``Node``: no neighbour on the socket, and the only neighbour on the node is the workload. Alone
  means without neighbours on the node.

A sample beside several workloads shows nothing about any one of them and is not used. The same
applies to neighbours without a profile (``NAMESPACE/``), which may be any workload. The result is
"not enough data" with less than three samples of one run, or samples of two runs, beside the
neighbour and alone; and with less than two runs that were in both, or three runs that were not.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import inf
from typing import Literal, NamedTuple, TypeAlias

from gputopo.api.profile import NeighbourFact, Sample
from gputopo.profiles.comparable import (
    ALONE,
    UNKNOWN,
    BandwidthKey,
    Demands,
    bandwidth_classes,
    bandwidth_key,
    cpu_limit,
    enough,
    in_order,
    neighbour_on_node,
    neighbour_on_socket,
)
from gputopo.profiles.contrast import contrast
from gputopo.profiles.estimate import Estimate, combined
from gputopo.profiles.percent import to_slowdown
from gputopo.profiles.runs import cells_of, newest_runs, run_means

Scope: TypeAlias = Literal["Socket", "Node"]


class Surroundings(NamedTuple):
    """What is equal in samples that are compared; enough CPUs count as infinitely many."""

    gpus: int
    links: BandwidthKey
    cpus: float


def neighbour_facts(samples: Iterable[Sample], demands: Demands = UNKNOWN) -> list[NeighbourFact]:
    """Return the slowdown beside each workload with enough samples.

    ``samples`` are of one GPU model and image.
    """
    ordered = in_order(samples)
    surroundings = _surroundings(ordered, demands)
    kinds: tuple[tuple[Scope, Callable[[Sample], str | None]], ...] = (
        ("Socket", neighbour_on_socket),
        ("Node", neighbour_on_node),
    )
    facts = []
    for scope, neighbour in kinds:
        groups = _grouped(ordered, neighbour)
        alone = groups.pop(ALONE, [])
        for workload, beside in sorted(groups.items()):
            facts.append(_fact(workload, scope, beside, alone, surroundings))
    return [fact for fact in facts if fact]


def _fact(
    workload: str,
    scope: Scope,
    beside: Sequence[Sample],
    alone: Sequence[Sample],
    surroundings: Callable[[Sample], Surroundings],
) -> NeighbourFact | None:
    if not (enough(beside) and enough(alone)):
        return None
    estimate = _estimate(newest_runs(beside), newest_runs(alone), surroundings)
    if estimate is None or not estimate.freedom:
        return None
    slowdown = to_slowdown(estimate)
    return NeighbourFact(
        workload=workload,
        scope=scope,
        percent=slowdown.percent,
        low_percent=slowdown.low,
        high_percent=slowdown.high,
        samples=len(beside),
    )


def _estimate(
    beside: Sequence[Sample],
    alone: Sequence[Sample],
    surroundings: Callable[[Sample], Surroundings],
) -> Estimate | None:
    """Return the logarithm of the slowdown, None if no surroundings have both kinds of samples."""
    kinds = chain(((each, True) for each in beside), ((each, False) for each in alone))
    cells = cells_of((each, (surroundings(each), is_beside)) for each, is_beside in kinds)
    runs = defaultdict[tuple[Surroundings, bool], dict[str, Estimate]](dict)
    for (run, setting), mean in run_means(cells).items():
        runs[setting][run] = mean
    found = [
        contrast(means, runs[where, False])
        for (where, is_beside), means in runs.items()
        if is_beside and (where, False) in runs
    ]
    known = [each for each in found if each]
    return combined(known) if known else None


def _grouped(
    samples: Iterable[Sample], neighbour: Callable[[Sample], str | None]
) -> dict[str, list[Sample]]:
    groups = defaultdict[str, list[Sample]](list)
    for sample in samples:
        if (workload := neighbour(sample)) is not None:
            groups[workload].append(sample)
    return groups


def _surroundings(samples: Iterable[Sample], demands: Demands) -> Callable[[Sample], Surroundings]:
    classes = bandwidth_classes(samples)

    def find(sample: Sample) -> Surroundings:
        limit, demand = cpu_limit(sample), demands.get(sample.gpus)
        cpus = inf if demand is not None and limit >= demand else limit
        return Surroundings(sample.gpus, classes[bandwidth_key(sample)], cpus)

    return find
