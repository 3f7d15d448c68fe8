"""Rates by number of GPUs: the paper's equation and example, facts, limits."""

import math
import random
from typing import cast

import pytest

from gputopo.api.profile import Sample, ScalingFact
from gputopo.ensemble.rates import BatchOf, EnsembleError, MemberRates, profiling_range
from gputopo.profiles.ratefit import Effect, RateFit
from gputopo.profiles.scaling import scaling_facts


def equation_1(rates: dict[int, float], m_b: int, gpus: int) -> float:
    """Return equation 1 as the paper prints it."""
    last, before = rates[m_b], rates[m_b - 1]
    return gpus * last / m_b * (last / before * (m_b - 1) / m_b) ** (gpus - m_b)


def fact(gpus: int, steps: float, *, extrapolated: bool = False) -> ScalingFact:
    return ScalingFact(
        gpus=gpus,
        micro_steps_per_second=round(steps * 1e6),
        ci_permille=20,
        extrapolated=extrapolated,
    )


def test_worked_example_of_the_paper() -> None:
    found = profiling_range([176.0, 21.0, 60.0], 4)
    assert (found.by_rates, found.by_nodes, found.most) == (9, 8, 9)


def test_extrapolation_gives_back_its_anchors() -> None:
    measured = {gpus: 100 * gpus / (1 + 0.03 * (gpus - 1)) for gpus in range(1, 10)}
    rates = MemberRates.of(measured)
    assert [rates.at(gpus) for gpus in measured] == pytest.approx(list(measured.values()))
    assert equation_1(measured, 9, 9) == pytest.approx(measured[9])
    assert equation_1(measured, 9, 8) == pytest.approx(measured[8])


def test_extrapolation_is_equation_1_at_the_last_measured_pair() -> None:
    measured = {gpus: 100 * gpus / (1 + 0.03 * (gpus - 1)) for gpus in range(1, 10)}
    rates = MemberRates.of(measured, 40)
    for gpus in (10, 17, 40):
        assert rates.at(gpus) == pytest.approx(equation_1(measured, 9, gpus))


def test_extrapolation_is_that_of_the_profiles() -> None:
    samples = cast("list[Sample]", [None] * 3)  # only their number counts
    fits = {
        gpus: RateFit(samples, None, (), Effect(math.log(1 + 0.02 * (gpus - 1)), 0.001, 2.0))
        for gpus in (1, 2, 4)
    }
    facts = scaling_facts(fits)
    assert [each.gpus for each in facts if each.extrapolated] == [5, 6, 7, 8]
    rates = MemberRates.of_facts(facts, 1, BatchOf.GPU)
    assert rates is not None
    assert rates.most == 8
    for each in facts:
        expected = each.micro_steps_per_second / 1e6 * each.gpus
        assert rates.at(each.gpus) == pytest.approx(expected, rel=1e-3)


def test_missing_numbers_of_gpus_are_between_the_measured_ones() -> None:
    rates = MemberRates.of({1: 100.0, 4: 320.0, 8: 560.0})
    assert rates.at(4) == 320
    assert 180 < rates.at(2) < 200
    assert rates.at(2) / 2 == pytest.approx(100 * (80 / 100) ** (1 / 3))
    assert rates.most == 16


@pytest.mark.parametrize("measured", [{1: 100.0}, {1: 100.0, 2: 190.0}, {4: 300.0}])
def test_nothing_is_extrapolated_without_two_numbers_of_several_gpus(
    measured: dict[int, float],
) -> None:
    assert MemberRates.of(measured, 40).most == max(measured)


def test_gain_of_further_gpus_is_not_continued() -> None:
    rates = MemberRates.of({1: 100.0, 2: 190.0, 3: 300.0}, 30)
    assert rates.at(30) == pytest.approx(3000)


def test_fastest_number_of_gpus_is_the_fewest_of_equal_ones() -> None:
    rates = MemberRates.of({1: 100.0, 2: 150.0, 3: 150.0, 4: 120.0})
    assert [rates.fastest(most) for most in (1, 2, 3, 4, 8)] == [1, 2, 2, 2, 2]
    assert MemberRates.of({2: 100.0}).fastest(1) == 2


def test_measured_rate_that_differs_scales_all_rates() -> None:
    rates = MemberRates.of({1: 100.0, 2: 190.0, 3: 270.0})
    slower = rates.corrected(2, 95.0)
    assert list(slower.measured) == [(1, 50), (2, 95), (3, 135)]
    assert slower.at(5) == pytest.approx(rates.at(5) / 2)


def test_measured_rate_replaces_an_extrapolated_one() -> None:
    rates = MemberRates.of({1: 100.0, 2: 190.0, 3: 270.0})
    slower = rates.corrected(5, 300.0)
    assert [slower.at(gpus) for gpus in (2, 3, 5)] == [190, 270, 300]
    assert slower.most == rates.most
    assert slower.at(6) < rates.at(6)


def test_impossible_corrections_are_rejected() -> None:
    with pytest.raises(EnsembleError, match="rates: "):
        MemberRates.of({1: 100.0}).corrected(1, 0.0)


def test_facts_count_the_items_of_a_step() -> None:
    facts = [fact(1, 10), fact(2, 9), fact(3, 8, extrapolated=True), fact(4, 0)]
    per_gpu = MemberRates.of_facts(facts, 32, BatchOf.GPU)
    per_job = MemberRates.of_facts(facts, 32, BatchOf.JOB)
    assert per_gpu is not None
    assert per_job is not None
    assert list(per_gpu.measured) == [(1, 320), (2, 576)]
    assert list(per_job.measured) == [(1, 320), (2, 288)]
    assert MemberRates.of_facts([fact(2, 9, extrapolated=True)], 32, BatchOf.JOB) is None


def test_measured_rates_come_before_declared_ones_and_scale_the_others() -> None:
    measured = MemberRates.of({1: 90.0, 2: 171.0})
    found = MemberRates.combined({1: 100.0, 4: 300.0}, measured)
    assert found is not None
    assert found.measured == ((1, 90.0), (2, 171.0), (4, 270.0))
    assert MemberRates.combined({4: 300.0}, measured) == MemberRates.of(
        {**dict(measured.measured), 4: 300.0}
    )
    assert MemberRates.combined({}, measured) == measured
    assert MemberRates.combined({4: 300.0}, None) == MemberRates.of({4: 300.0})
    assert MemberRates.combined({}, None) is None


@pytest.mark.parametrize("measured", [{}, {0: 5.0}, {1: 0.0}, {1: -1.0}, {1: math.nan}])
def test_impossible_rates_are_rejected(measured: dict[int, float]) -> None:
    with pytest.raises(EnsembleError, match="rates: "):
        MemberRates.of(measured)


@pytest.mark.parametrize("items", [0, -1, math.inf])
def test_impossible_items_of_a_step_are_rejected(items: float) -> None:
    with pytest.raises(EnsembleError, match="items_per_step: "):
        MemberRates.of_facts([fact(1, 10)], items, BatchOf.GPU)


@pytest.mark.parametrize("gpus", [0, 1, 9])
def test_unknown_rate_is_an_error(gpus: int) -> None:
    with pytest.raises(EnsembleError, match=rf"gpus: {gpus}; rates are known for 2\.\.8"):
        MemberRates.of({2: 100.0, 3: 140.0, 4: 180.0}).at(gpus)


@pytest.mark.parametrize(("rates", "gpus"), [([], 4), ([1.0, 0.0], 4), ([1.0], 0)])
def test_impossible_profiling_is_rejected(rates: list[float], gpus: int) -> None:
    with pytest.raises(EnsembleError, match="must be"):
        profiling_range(rates, gpus)


def test_all_measured_rates_are_given_back_exactly() -> None:
    source = random.Random(3)  # noqa: S311 - repeatable
    for _ in range(200):
        counts = source.sample(range(1, 17), source.randint(1, 6))
        measured = {gpus: source.uniform(1, 500) for gpus in counts}
        rates = MemberRates.of(measured)
        assert rates.least == min(counts)
        for gpus, rate in measured.items():
            assert rates.at(gpus) == rate
