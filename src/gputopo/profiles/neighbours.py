"""Computes how much slower a workload runs beside another workload (SC17, section 3, figure 6).

The time per step beside the other workload is compared with the time per step alone. Only samples
with equal numbers of GPUs, similar bandwidth and similar CPUs are compared. There are two scopes:

- ``Socket``: "beside" means that all other pods with GPUs on the same CPU socket are of the other
  workload. "Alone" means that there are no such pods. Pods on other sockets are ignored.
- ``Node``: no other pod has GPUs on the same socket. "Beside" means that all other pods with GPUs
  on the node are of the other workload. "Alone" means that there are no such pods.

Samples beside several workloads do not show which workload had the effect, so they are not used.
Samples beside a pod without GPUProfile (``NAMESPACE/``) are not used, because its workload is
unknown. A slowdown needs three samples, or samples of two runs, beside the workload and as many
alone. It also needs two runs that were both beside it and alone, or at least three runs in total.
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
    """Conditions that compared samples share; ``cpus`` is infinite if the CPUs are enough."""

    gpus: int
    links: BandwidthKey
    cpus: float


def neighbour_facts(samples: Iterable[Sample], demands: Demands = UNKNOWN) -> list[NeighbourFact]:
    """Return the slowdown beside each other workload. Samples are of one GPU model and image."""
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
    """Return the logarithm of the slowdown, or None if no samples share their surroundings."""
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
