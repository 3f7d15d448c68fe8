import pytest

from gputopo.placement.model import MAPA_POLICIES, PolicyName
from gputopo_simulate.mapa.paper import FIGURE_18, TABLE_3, PaperClaim
from gputopo_simulate.mapa.summary import Quartiles

GOOD = {
    PolicyName.BASELINE: Quartiles(3, 10, 20, 34, 50),
    PolicyName.TOPO_AWARE: Quartiles(3, 10, 21, 34, 50),
    PolicyName.GREEDY: Quartiles(3, 10, 34, 55, 60),
    PolicyName.PRESERVE: Quartiles(10, 30, 54, 58, 60),
}


def test_table_3_is_relative_to_baseline() -> None:
    baseline = TABLE_3[PolicyName.BASELINE]
    assert (baseline.minimum, baseline.median, baseline.throughput) == (1, 1, 1)
    assert set(TABLE_3) == set(MAPA_POLICIES)


@pytest.mark.parametrize("claim", FIGURE_18, ids=lambda claim: claim.words)
def test_claim_holds_for_good_figures_and_fails_if_preserve_is_no_better(
    claim: PaperClaim,
) -> None:
    assert claim.holds(GOOD)
    assert not claim.holds({**GOOD, PolicyName.PRESERVE: GOOD[PolicyName.BASELINE]})
