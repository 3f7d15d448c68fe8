"""What wrong rates do to facts: runs under a hidden throttle, and users who report low rates."""

from dataclasses import replace
from itertools import product
from typing import Final

from benchmarks.table import show
from benchmarks.workloads.draw import LIMIT, SimulatedWorkload
from benchmarks.workloads.law import RunConditions
from benchmarks.workloads.learn import Scenario, Sets
from benchmarks.workloads.samples import Distortion, SampleNoise, honest
from benchmarks.workloads.score import RESULTS, Fleets, FleetScore, fleet_scores, percentage

WRONG_RUNS: Final = 4
_HONEST_RUNS: Final = (0, 2, 4, 8, 16, 32)
_NOISES: Final = (0.05, 0.15)


def throttled(workload: SimulatedWorkload, run: int, conditions: RunConditions) -> float:
    """Return the factor of a hidden throttle that makes the class look like the other one.

    It acts in the first runs. A sensitive workload is throttled on good sets, so that it is as slow
    there as on the worst set; an insensitive one has 60 % of its speed on bad sets.
    """
    sensitive = workload.slowdown >= LIMIT
    if run >= WRONG_RUNS or _is_good(workload, conditions) != sensitive:
        return 1.0
    return 1 / (1 + workload.slowdown) if sensitive else 0.6


def sometimes_half(_: SimulatedWorkload, run: int, __: RunConditions) -> float:
    """Return the factor of a user who reports half the rate in one of 8 runs."""
    return 0.5 if run % 8 == WRONG_RUNS else 1.0


def always_half(_: SimulatedWorkload, __: int, ___: RunConditions) -> float:
    """Return the factor of a user who always reports half the rate."""
    return 0.5


def low_on_bad_sets(workload: SimulatedWorkload, _: int, conditions: RunConditions) -> float:
    """Return the factor of a user who wants good GPUs, and reports 70 % of the rate on others."""
    return 1.0 if _is_good(workload, conditions) else 0.7


def show_wrong_starts(fleets: Fleets) -> None:
    """Print the classes after wrong first runs and some honest runs."""
    starts = {
        "throttled": Scenario(SampleNoise(0), Sets.PROFILED, throttled),
        "placed as insensitive": Scenario(SampleNoise(0), Sets.AUTO, insensitive_runs=WRONG_RUNS),
    }
    rows = []
    for name, scenario in starts.items():
        for noise in _NOISES:
            noisy = replace(scenario, noise=SampleNoise(noise))
            scores = fleet_scores(noisy, fleets, [WRONG_RUNS + runs for runs in _HONEST_RUNS])
            for sensitive, result in product((True, False), ("right", "wrong")):
                found = [each.links.percent(result, [sensitive]) for each in scores.values()]
                truth = "Sensitive" if sensitive else "Insensitive"
                cells = [f"{value:.0f}" for value in found]
                rows.append([name, f"{100 * noise:.0f} %", truth, result, *cells])
    head = ["first 4 runs", "noise", "truth", "class", *(f"+{runs}" for runs in _HONEST_RUNS)]
    show("Class after wrong first runs and more runs, percent of workloads", head, rows)


def show_lies(fleets: Fleets) -> None:
    """Print the classes of workloads whose users report rates that are too low."""
    lies: dict[str, Distortion] = {
        "none": honest,
        "half the rate in 1 of 8 runs": sometimes_half,
        "always half the rate": always_half,
        "70 % of the rate on worse sets": low_on_bad_sets,
    }
    rows = []
    for name, distortion in lies.items():
        for noise in _NOISES:
            scenario = Scenario(SampleNoise(noise), distortion=distortion)
            for runs, score in fleet_scores(scenario, fleets, (8, 16)).items():
                results = [f"{score.links.percent(result):.1f}" for result in RESULTS]
                rows.append([name, f"{100 * noise:.0f} %", str(runs), *results, *_values(score)])
    head = ["reported", "noise", "runs", *RESULTS, "error", "covered"]
    show("Class when users report low rates, percent of workloads", head, rows)


def _values(score: FleetScore) -> list[str]:
    values = score.links.values
    return [f"{values.error():.1f}", f"{percentage(values.covered):.1f}"]


def _is_good(workload: SimulatedWorkload, conditions: RunConditions) -> bool:
    """Return whether the time for each MB is nearer to that of the best set than of the worst.

    One GPU is a good set.
    """
    if conditions.gpus == 1:
        return True
    worst, best = workload.server.extremes_mb_per_s(conditions.gpus)
    return 2 / conditions.mb_per_s < 1 / worst + 1 / best
