"""How near facts from samples are to the laws of simulated workloads (docs/studies/facts.md)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from benchmarks.options import Options
from benchmarks.table import show
from benchmarks.workloads.learn import Scenario, Sets
from benchmarks.workloads.samples import SampleNoise
from benchmarks.workloads.score import (
    RESULTS,
    ClassScore,
    Fleets,
    FleetScore,
    ValueScore,
    fleet_scores,
    percentage,
    quantile,
)
from benchmarks.wrong_samples import show_lies, show_wrong_starts

NOISES: Final = (0.05, 0.15, 0.30)
_FLEETS: Final = 50

_SCENARIOS: Final[Mapping[str, Scenario]] = {
    "1 %": Scenario(SampleNoise(0.01)),
    "3 %": Scenario(SampleNoise(0.03)),
    "15 %, no outliers, no drift": Scenario(SampleNoise(0.15, outliers=0, drift=0)),
    "15 %, bandwidths 15 % off": Scenario(SampleNoise(0.15, model=0.15)),
    "3 %, Auto": Scenario(SampleNoise(0.03), Sets.AUTO),
    "15 %, Auto": Scenario(SampleNoise(0.15), Sets.AUTO),
    "1 %, on purpose, Auto": Scenario(SampleNoise(0.01), Sets.PROFILED),
    "3 %, on purpose, Auto": Scenario(SampleNoise(0.03), Sets.PROFILED),
    "15 %, on purpose, Auto": Scenario(SampleNoise(0.15), Sets.PROFILED),
}

_FEWER: Final = 10
"""Other scenarios have so many times fewer fleets."""

_VALUES: Final[Mapping[str, Callable[[FleetScore], ValueScore]]] = {
    "Slowdown beside a neighbour, points": lambda score: score.neighbours,
    "Rate by number of GPUs, percent": lambda score: score.scaling,
    "Extrapolated rate by number of GPUs, percent": lambda score: score.extrapolated,
    "Rate by CPUs, percent": lambda score: score.cpus.points,
}

_Scores: TypeAlias = Mapping[tuple[str, int], FleetScore]
"""Scores by scenario and number of runs."""


def run(options: Options) -> None:
    """Simulate fleets of 20 workloads, and print how near their facts are to the truth."""
    fleets = Fleets(1 if options.quick else _FLEETS, options.seed, 1 if options.quick else None)
    noises = {f"{100 * noise:.0f} %": Scenario(SampleNoise(noise)) for noise in NOISES}
    scores = _scores(noises, fleets)
    _show_classes(
        f"Sensitive to links or not; {fleets.count} fleets, seed {fleets.seed}", _links(scores)
    )
    near = {key: each.near for key, each in scores.items()}
    _show_classes("The same, slowdowns within 3 points of the limit", near)
    for title, find in _VALUES.items():
        _show_values(title, {key: find(each) for key, each in scores.items()})
    few = replace(fleets, count=max(1, fleets.count // _FEWER))
    others = _scores(_SCENARIOS, few)
    _show_classes(f"Sensitive to links or not; {few.count} fleets", _links(others))
    _show_demands({key: each for key, each in others.items() if "purpose" in key[0]})
    show_wrong_starts(few)
    show_lies(few)


def _scores(scenarios: Mapping[str, Scenario], fleets: Fleets) -> _Scores:
    return {
        (name, runs): score
        for name, scenario in scenarios.items()
        for runs, score in fleet_scores(scenario, fleets).items()
    }


def _show_classes(title: str, scores: Mapping[tuple[str, int], ClassScore]) -> None:
    head = ["noise", "runs", *RESULTS, "placed right", "error", "covered", "bound"]
    rows = [
        [
            *(name, str(runs)),
            *(f"{score.percent(result):.1f}" for result in RESULTS),
            f"{percentage(score.placed_right):.1f}",
            f"{score.values.error():.1f}",
            f"{percentage(score.values.covered):.1f}",
            f"{score.bound():.1f}",
        ]
        for (name, runs), score in scores.items()
    ]
    show(title, head, rows)


def _show_values(title: str, scores: Mapping[tuple[str, int], ValueScore]) -> None:
    head = ["noise", "runs", "facts", "possible", "error", "90 of 100", "covered"]
    rows = [
        [
            *(name, str(runs), str(len(score.errors)), str(score.possible or "-")),
            f"{score.error():.1f}",
            f"{score.error(0.9):.1f}",
            f"{percentage(score.covered):.1f}",
        ]
        for (name, runs), score in scores.items()
    ]
    show(title, head, rows)


def _show_demands(scores: _Scores) -> None:
    head = ["noise", "runs", "demands", "workloads", "demand / true", "full speed", "10 of 100"]
    rows = [
        [
            *(name, str(runs), str(len(score.cpus.demands)), str(score.cpus.workloads)),
            f"{quantile(score.cpus.demands, 0.5):.2f}",
            f"{100 * quantile(score.cpus.reached, 0.5):.1f}",
            f"{100 * quantile(score.cpus.reached, 0.1):.1f}",
        ]
        for (name, runs), score in scores.items()
    ]
    show("CPU demand, and speed with it in percent of full speed", head, rows)


def _links(scores: _Scores) -> dict[tuple[str, int], ClassScore]:
    return {key: each.links for key, each in scores.items()}
