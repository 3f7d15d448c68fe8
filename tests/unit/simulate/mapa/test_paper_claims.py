import pytest

from gputopo.placement.model import PolicyName
from gputopo_simulate.mapa.paper import FIGURE_18, TABLE_3, Claim
from gputopo_simulate.mapa.statistics import Quartiles

GOOD = {
    PolicyName.BASELINE: Quartiles(3, 10, 20, 34, 50),
    PolicyName.TOPO_AWARE: Quartiles(3, 10, 21, 34, 50),
    PolicyName.GREEDY: Quartiles(3, 10, 34, 55, 60),
    PolicyName.PRESERVE: Quartiles(10, 30, 54, 58, 60),
}


def test_table_3_is_relative_to_baseline() -> None:
    baseline = TABLE_3[PolicyName.BASELINE]
    assert (baseline.minimum, baseline.median, baseline.throughput) == (1, 1, 1)
    assert set(TABLE_3) == set(PolicyName)


@pytest.mark.parametrize("claim", FIGURE_18, ids=lambda claim: claim.words)
def test_a_claim_holds_where_it_is_so_and_fails_where_preserve_is_no_better(claim: Claim) -> None:
    assert claim.holds(GOOD)
    assert not claim.holds({**GOOD, PolicyName.PRESERVE: GOOD[PolicyName.BASELINE]})
