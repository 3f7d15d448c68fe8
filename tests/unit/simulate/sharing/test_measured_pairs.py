"""Tables of measured pairs are parsed or rejected."""

import pytest

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sharing.measured import parse_pairs
from support.sharing import HEADER, gavel, three


def test_pair_has_speeds_in_both_orders() -> None:
    pairs = three()
    assert pairs.speeds["A (x)", "B"] == pytest.approx(0.9)
    assert pairs.speeds["B", "A (x)"] == pytest.approx(0.8)
    assert pairs.gain("B", "A (x)").summed_speed == pytest.approx(1.7)
    assert pairs.gain("B", "A (x)").delta == pytest.approx((0.1 + 0.2) / 0.25)


def test_each_pair_is_listed_once() -> None:
    assert list(three().pairs()) == [
        ("A (x)", "A (x)"),
        ("A (x)", "B"),
        ("A (x)", "C"),
        ("B", "C"),
        ("C", "C"),
    ]
    assert len(three().facts()) == 5
    assert [fact.workloads for fact in three().facts({"A (x)"})] == [("B", "C"), ("C", "C")]


def test_pair_that_was_not_measured_does_not_fit() -> None:
    assert three().fits("B", "C")
    assert not three().fits("B", "B")


def test_family_is_the_name_without_the_batch_size() -> None:
    assert three().families() == {"A": {"A (x)"}, "B": {"B"}, "C": {"C"}}
    assert three().models["A (x)"].family == "A"
    assert len(gavel().families()) == 7


def test_gavel_has_330_pairs_of_26_models() -> None:
    pairs = gavel()
    assert (len(pairs.models), len(list(pairs.pairs())), len(pairs.speeds)) == (26, 330, 636)
    gains = [pairs.gain(*pair) for pair in pairs.pairs()]
    assert sum((gain.delta or 0) >= 1 for gain in gains) == 132  # 40 %
    assert sum(gain.summed_speed >= 1 for gain in gains) == 258  # 78 %
    assert all(0 < speed <= 1 for speed in pairs.speeds.values())


def test_unknown_model_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(SimulationError, match=r"model: 'D' was not measured; known: A \(x\), B, C"):
        three().require("D", "model")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "pairs: the table is empty"),
        ("A,B,1,2,0,1\n", "line 2, shared_a: '0' is not in"),
        ("A,,1,2,1,1\n", "line 2, model_b: is missing"),
        ("A,B,1,2,1,1\nA,A,2,2,1,1\n", "line 3, solo_a: 2; an earlier row has 1"),
        ("A,B,1,2,1,1\nB,A,2,1,1,0.5\n", "line 3, model_b: second row for 'B' and this model"),
    ],
)
def test_invalid_table_is_rejected(rows: str, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        parse_pairs(HEADER + rows)


def test_repeated_equal_row_is_accepted() -> None:
    """Gavel's own file has each pair in both orders."""
    pairs = parse_pairs(f"{HEADER}A,B,1,2,0.5,1\nB,A,2,1,1,0.5\n")
    assert pairs.speeds == {("A", "B"): 0.5, ("B", "A"): 0.5}
