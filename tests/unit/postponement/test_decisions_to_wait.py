"""A pod waits for its minimum, or for the best that its nodes can give, until its own limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputopo.postponement.decide import decide_wait, is_expired, target_permille
from gputopo.postponement.model import (
    Outlook,
    WaitDecision,
    WaitTerms,
    WaitVerdict,
    relative_permille,
)

PERMILLE = st.integers(0, 1000)
TERMS = WaitTerms(minimum_permille=700, created=100.0, max_wait_seconds=60)


@pytest.mark.parametrize(
    ("now_permille", "then_permille", "now", "expected"),
    [
        (450, 1000, 120.0, WaitDecision(WaitVerdict.WAITS, 700)),
        (450, 600, 120.0, WaitDecision(WaitVerdict.WAITS, 600)),
        (450, 450, 120.0, WaitDecision(WaitVerdict.REACHED, 450)),
        (700, 1000, 120.0, WaitDecision(WaitVerdict.REACHED, 700)),
        (450, 1000, 159.9, WaitDecision(WaitVerdict.WAITS, 700)),
        (450, 1000, 160.0, WaitDecision(WaitVerdict.EXPIRED, 0)),
        (800, 1000, 160.0, WaitDecision(WaitVerdict.REACHED, 700)),
    ],
)
def test_decision(
    now_permille: int, then_permille: int, now: float, expected: WaitDecision
) -> None:
    assert decide_wait(TERMS, Outlook(now_permille, then_permille), now) == expected


@pytest.mark.parametrize(
    "terms",
    [WaitTerms(700, 100.0, 0), WaitTerms(700, None, 60)],
    ids=["opted out", "unknown creation"],
)
def test_pod_without_a_limit_never_waits(terms: WaitTerms) -> None:
    assert is_expired(terms, 0.0)
    assert decide_wait(terms, Outlook(1, 1000), 0.0).verdict is WaitVerdict.EXPIRED


@given(
    minimum=PERMILLE,
    values=st.tuples(PERMILLE, PERMILLE).map(sorted),
    seconds=st.integers(0, 1000),
    now=st.floats(0, 2000),
)
def test_every_wait_is_limited_useful_and_ends_when_the_target_is_reached(
    minimum: int, values: list[int], seconds: int, now: float
) -> None:
    terms = WaitTerms(minimum, 0.0, seconds)
    outlook = Outlook(*values)
    decision = decide_wait(terms, outlook, now)
    if decision.verdict is WaitVerdict.WAITS:
        assert now < seconds
        assert outlook.now_permille < outlook.then_permille
        target = target_permille(terms, outlook.then_permille)
        reached = decide_wait(terms, Outlook(target, outlook.then_permille), now)
        assert reached.verdict is WaitVerdict.REACHED
    else:
        assert decision.target_permille <= outlook.now_permille


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_relative_value_is_exact_and_at_most_ideal(value: int, best: int) -> None:
    found = relative_permille(value, best)
    assert found == min(1000, value * 1000 // best)


def test_every_value_is_ideal_if_no_placement_has_any() -> None:
    assert relative_permille(0, 0) == 1000
