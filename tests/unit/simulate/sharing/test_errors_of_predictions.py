"""Models are left out of the measured pairs, and their pairs are predicted."""

from dataclasses import asdict

import pytest

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sharing.evaluation import evaluate, rules
from gputopo_simulate.sharing.measured import parse_pairs
from support.sharing import HEADER, gavel, three


def test_rules_lose_against_perfect_knowledge() -> None:
    """Summed speeds of A, B, C: AA 2.0, AB 1.7, AC 1.6, BC 0.8, CC 0.8."""
    found = {each.rule: each for each in rules(three())}
    assert found["never share"].regret == pytest.approx((1 + 0.7 + 0.6) / 5)
    assert found["always share"].regret == pytest.approx((0.2 + 0.2) / 5)
    assert found["measured summed speed > margin"].regret == 0
    assert found["measured summed speed > margin"].shares == 0.6
    thesis = found["thesis: measured delta >= 1"]
    assert thesis.shares == 0.4
    assert thesis.regret == pytest.approx(0.6 / 5)


def test_model_of_a_known_family_is_predicted_far_better_than_by_the_mean() -> None:
    mean, own = evaluate(gavel(), "model", by_mean=True), evaluate(gavel(), "model")
    assert own.pairs == mean.pairs == 636  # each pair of two models twice
    assert own.speed_error < 0.4 * mean.speed_error
    assert own.delta_error < 0.4 * mean.delta_error
    assert own.wrong_speed < 0.25 * mean.wrong_speed
    assert own.regret_speed < 0.2 * mean.regret_speed
    assert 0.9 < own.covered < 0.99


def test_new_family_is_unknown_and_not_shared() -> None:
    found = evaluate(gavel(), "family")
    assert found.unknown == 1
    never = rules(gavel())[0].regret
    assert found.regret == pytest.approx(never, abs=0.01)
    assert found.wrong_known == 0  # no pair is known


def test_more_measured_pairs_never_make_it_worse() -> None:
    none, some = (evaluate(gavel(), "model", kept_pairs=kept, draws=1) for kept in (0, 8))
    assert some.speed_error < none.speed_error
    assert some.unknown < none.unknown


def test_kept_pairs_are_at_most_those_that_exist() -> None:
    found = evaluate(three(), "model", kept_pairs=2, draws=2)
    assert found.pairs == 2 * (1 + 1)  # of A and C one pair is left, of B none


def test_something_must_be_left() -> None:
    pairs = parse_pairs(f"{HEADER}A,A,10,10,10,10\nA,B,10,4,8,1\n")
    with pytest.raises(SimulationError, match="pairs: all have A or its family; none is left"):
        evaluate(pairs, "model")


def test_figures_depend_on_nothing_else() -> None:
    first, second = (asdict(evaluate(three(), "family", kept_pairs=1)) for _ in range(2))
    assert first == second
