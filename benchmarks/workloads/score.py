"""Compares facts with the laws of the workloads."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from benchmarks.workloads.attainable import attainable
from benchmarks.workloads.draw import LIMIT, SimulatedWorkload, fleet
from benchmarks.workloads.law import RunConditions
from benchmarks.workloads.learn import CHECKPOINTS, Checkpoint, Scenario, learn
from benchmarks.workloads.samples import SampleNoise
from gputopo.api.profile import CpuPoint, LinkFact, ScalingFact

NEAR: Final = 0.03
"""Workloads this near to the limit are counted separately: a wrong class costs little there."""

_ROUNDED: Final = 0.5
"""Percentages in facts are integers."""

RESULTS: Final = ("right", "unknown", "wrong")

_RateFact: TypeAlias = CpuPoint | ScalingFact


@dataclass(slots=True)
class ValueScore:
    """How near estimated values are to the truth.

    Attributes:
        possible: how many values the samples say something about.
        errors: absolute errors, in the unit of the values.
        covered: whether the 95 % interval contains the truth.
    """

    possible: int = 0
    errors: list[float] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)

    def add(self, truth: float, value: float, low: float, high: float) -> None:
        """Add one estimate with its 95 % interval."""
        self.errors.append(abs(value - truth))
        self.covered.append(low - _ROUNDED <= truth <= high + _ROUNDED)

    def add_rate(self, seconds: float, rate: _RateFact) -> None:
        """Add a rate with its error in percent of the true rate, which is 1 / ``seconds``."""
        value = 100 * seconds * rate.micro_steps_per_second / 1e6
        half = value * rate.ci_permille / 1000
        self.add(100, value, value - half, value + half)

    def error(self, part: float = 0.5) -> float:
        """Return the error that this part of the values does not exceed; by default the median."""
        return quantile(self.errors, part)


@dataclass(slots=True)
class ClassScore:
    """Whether workloads got the right class.

    Attributes:
        results: how many are ``right``, ``unknown`` or ``wrong``, by whether they are sensitive.
        bounds: the same for the best possible estimator.
        placed_right: whether a job is placed by its true class; unknown counts as sensitive.
        values: the slowdown in points, of the workloads with a fact.
    """

    results: Counter[tuple[bool, str]] = field(default_factory=Counter)
    bounds: Counter[str] = field(default_factory=Counter)
    placed_right: list[bool] = field(default_factory=list)
    values: ValueScore = field(default_factory=ValueScore)

    def add(self, slowdown: float, fact: LinkFact | None, best: LinkFact | None) -> None:
        """Add one workload with its true slowdown (0.2 is 20 %), its fact and the best possible."""
        is_sensitive = slowdown >= LIMIT
        self.results[is_sensitive, result_of(slowdown, fact)] += 1
        self.bounds[result_of(slowdown, best)] += 1
        placed_as_sensitive = fact is None or fact.sensitivity != "Insensitive"
        self.placed_right.append(placed_as_sensitive == is_sensitive)
        if fact is not None:
            self.values.add(100 * slowdown, fact.percent, fact.low_percent, fact.high_percent)

    def percent(self, result: str, classes: Sequence[bool] = (False, True)) -> float:
        """Return the percentage of the workloads of these classes that have this result."""
        total = sum(self.results[each, name] for each in classes for name in RESULTS)
        return 100 * sum(self.results[each, result] for each in classes) / max(1, total)

    def bound(self) -> float:
        """Return the percentage of workloads that the best possible estimator has right."""
        return 100 * self.bounds["right"] / max(1, self.bounds.total())


@dataclass(slots=True)
class CpuScore:
    """How near CPU curves and CPU demands are to the truth, for the usual number of GPUs.

    Attributes:
        points: rate of each point of a curve, in percent of the true rate.
        demands: estimated demand, relative to the true demand.
        reached: true rate with the estimated demand, relative to that with very many CPUs.
    """

    workloads: int = 0
    points: ValueScore = field(default_factory=ValueScore)
    demands: list[float] = field(default_factory=list)
    reached: list[float] = field(default_factory=list)

    def add(self, checkpoint: Checkpoint) -> None:
        """Add the curve of one workload."""
        workload, gpus = checkpoint.workload, checkpoint.workload.gpus
        self.workloads += 1
        usual = [each.sample for each in checkpoint.samples if each.sample.gpus == gpus]
        self.points.possible += len({sample.milli_cpu for sample in usual})
        fact = next((fact for fact in checkpoint.facts.cpus if fact.gpus == gpus), None)
        for point in fact.points if fact else []:
            seconds = _seconds(workload, point.milli_cpu / 1000) / checkpoint.drift
            self.points.add_rate(seconds, point)
        if fact and fact.demand_milli_cpu is not None:
            demand = fact.demand_milli_cpu / 1000
            best = workload.server.extremes_mb_per_s(gpus)[1]
            self.demands.append(demand / workload.law.demand_cpus(gpus, best))
            self.reached.append(_seconds(workload, 1e6) / _seconds(workload, demand))


@dataclass(slots=True)
class FleetScore:
    """Scores of all workloads of some fleets.

    Attributes:
        links: slowdown on slow links, of workloads that are not near the limit.
        near: the same, of workloads whose slowdown is within 3 points of the limit.
    """

    links: ClassScore = field(default_factory=ClassScore)
    near: ClassScore = field(default_factory=ClassScore)
    neighbours: ValueScore = field(default_factory=ValueScore)
    scaling: ValueScore = field(default_factory=ValueScore)
    extrapolated: ValueScore = field(default_factory=ValueScore)
    cpus: CpuScore = field(default_factory=CpuScore)

    def add(self, checkpoint: Checkpoint, noise: SampleNoise) -> None:
        """Add one workload."""
        workload = checkpoint.workload
        links = self.near if abs(workload.slowdown - LIMIT) <= NEAR else self.links
        best = attainable(workload, noise, checkpoint.samples)
        links.add(workload.slowdown, checkpoint.link_fact, best)
        self._add_neighbours(checkpoint)
        self._add_scaling(checkpoint)
        self.cpus.add(checkpoint)

    def _add_neighbours(self, checkpoint: Checkpoint) -> None:
        """Add the slowdown beside every neighbour, in points."""
        law = checkpoint.workload.law
        self.neighbours.possible += len(_seen_neighbours(checkpoint))
        for fact in checkpoint.facts.neighbours:
            truth = (law.on_socket if fact.scope == "Socket" else law.on_node)[fact.workload]
            self.neighbours.add(100 * truth, fact.percent, fact.low_percent, fact.high_percent)

    def _add_scaling(self, checkpoint: Checkpoint) -> None:
        """Add the rate with every number of GPUs that the server has, in percent of the true rate.

        The true rate is that of the best GPU set, without neighbours, with the usual CPUs and with
        the mean drift until now.
        """
        workload = checkpoint.workload
        self.scaling.possible += len({each.sample.gpus for each in checkpoint.samples})
        for fact in checkpoint.facts.scaling:
            if fact.gpus <= len(workload.server.topology.gpus):
                score = self.extrapolated if fact.extrapolated else self.scaling
                score.add_rate(workload.alone_seconds(fact.gpus) / checkpoint.drift, fact)


@dataclass(frozen=True, slots=True)
class Fleets:
    """Which fleets are simulated.

    Attributes:
        workloads: of each fleet; None for all of them.
    """

    count: int
    seed: int
    workloads: int | None = None


def fleet_scores(
    scenario: Scenario, fleets: Fleets, checkpoints: Sequence[int] = CHECKPOINTS
) -> dict[int, FleetScore]:
    """Return the scores of random fleets after each number of runs in ``checkpoints``."""
    scores = {runs: FleetScore() for runs in checkpoints}
    for number in range(fleets.count):
        draw = random.Random(f"fleet {number} of seed {fleets.seed}")  # noqa: S311 - a simulation
        for workload in fleet(draw)[: fleets.workloads]:
            for checkpoint in learn(workload, scenario, draw, checkpoints):
                scores[checkpoint.runs].add(checkpoint, scenario.noise)
    return scores


def result_of(slowdown: float, fact: LinkFact | None) -> str:
    """Return whether the class is ``right``, ``unknown`` or ``wrong``."""
    if fact is None or fact.sensitivity == "Unknown":
        return "unknown"
    return "right" if (fact.sensitivity == "Sensitive") == (slowdown >= LIMIT) else "wrong"


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value that this part of the values does not exceed, NaN without values."""
    return sorted(values)[int(part * (len(values) - 1))] if values else float("nan")


def percentage(values: Sequence[bool]) -> float:
    """Return the percentage of true values, NaN without values."""
    return 100 * sum(values) / len(values) if values else float("nan")


def _seconds(workload: SimulatedWorkload, cpus: float) -> float:
    """Return the seconds of a step alone on the best set with this number of CPUs."""
    best = workload.server.extremes_mb_per_s(workload.gpus)[1]
    return workload.law.seconds(RunConditions(workload.gpus, best, cpus))


def _seen_neighbours(checkpoint: Checkpoint) -> set[tuple[str, str]]:
    """Return scope and name of each neighbour with a profile that occurs in the samples."""
    seen = set[tuple[str, str]]()
    for each in checkpoint.samples:
        socket = each.sample.socket_neighbours
        others = Counter(each.sample.node_neighbours) - Counter(socket)
        seen.update(("Socket", name) for name in socket)
        seen.update(("Node", name) for name in others)
    return {(scope, name) for scope, name in seen if not name.endswith("/")}
