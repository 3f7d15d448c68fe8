"""Facts against the laws of simulated workloads (docs/studies/facts.md has the complete study).

The laws and the samples are made without the estimators. The limits are a little worse than the
results of the study, so that an estimator that becomes worse fails.
"""

from functools import cache

import pytest

from benchmarks.workloads.learn import Scenario, Sets
from benchmarks.workloads.samples import SampleNoise
from benchmarks.workloads.score import Fleets, FleetScore, fleet_scores, percentage
from benchmarks.wrong_samples import always_half, sometimes_half, throttled

NOISES = (0.05, 0.15, 0.30)
FLEETS = 6
SEED = 2026
RUNS = 8


@cache
def score(noise: float) -> FleetScore:
    """Return the scores of 120 workloads after eight runs on good, middling and bad GPU sets."""
    return fleet_scores(Scenario(SampleNoise(noise)), Fleets(FLEETS, SEED), [RUNS])[RUNS]


@pytest.mark.parametrize("noise", NOISES)
def test_classes_are_rarely_wrong(noise: float) -> None:
    assert score(noise).links.percent("wrong") <= 2
    assert score(noise).near.percent("wrong") <= 10


@pytest.mark.parametrize("noise", NOISES)
def test_half_of_the_classes_that_samples_show_are_known(noise: float) -> None:
    links = score(noise).links
    assert links.percent("right") >= 0.48 * links.bound()


@pytest.mark.parametrize(("noise", "points"), [(0.05, 8), (0.15, 16), (0.30, 28)])
def test_error_of_slowdowns_on_bad_links_is_limited(noise: float, points: float) -> None:
    assert score(noise).links.values.error() <= points


@pytest.mark.parametrize("noise", NOISES)
def test_intervals_contain_the_truth(noise: float) -> None:
    values = (score(noise).links.values, score(noise).neighbours, score(noise).scaling)
    for value in values:
        assert percentage(value.covered) >= 93


@pytest.mark.parametrize(("noise", "share", "points"), [(0.05, 0.5, 3.5), (0.15, 0.25, 7)])
def test_slowdowns_beside_neighbours_are_found(noise: float, share: float, points: float) -> None:
    found = score(noise).neighbours
    assert len(found.errors) >= share * found.possible
    assert found.error() <= points


@pytest.mark.parametrize(("noise", "percent"), [(0.05, 4), (0.15, 8), (0.30, 14)])
def test_rates_by_number_of_gpus_are_found(noise: float, percent: float) -> None:
    assert score(noise).scaling.error() <= percent


def test_extrapolated_rates_are_of_the_right_size() -> None:
    assert score(0.05).extrapolated.error() <= 15


def test_two_runs_on_purpose_find_most_sensitive_workloads() -> None:
    scenario = Scenario(SampleNoise(0.02), Sets.PROFILED)
    links = fleet_scores(scenario, Fleets(3, SEED), [2])[2].links
    assert links.percent("right", [True]) >= 75
    assert links.percent("wrong") <= 2


def test_a_user_who_always_reports_half_the_rate_changes_no_class() -> None:
    honest, half = (
        fleet_scores(Scenario(SampleNoise(0.05), distortion=lie), Fleets(2, SEED), [RUNS])[
            RUNS
        ].links
        for lie in (Scenario(SampleNoise(0.05)).distortion, always_half)
    )
    assert half.results == honest.results


def test_half_the_rate_in_one_of_eight_runs_makes_few_classes_wrong() -> None:
    scenario = Scenario(SampleNoise(0.05), distortion=sometimes_half)
    assert fleet_scores(scenario, Fleets(3, SEED), [RUNS])[RUNS].links.percent("wrong") <= 8


def test_sensitive_workloads_that_seemed_insensitive_become_sensitive() -> None:
    scenario = Scenario(SampleNoise(0.05), Sets.PROFILED, throttled)
    scores = fleet_scores(scenario, Fleets(3, SEED), [4, 20])
    assert scores[20].links.percent("wrong", [True]) <= 4
    assert scores[20].links.percent("right", [True]) >= 55
