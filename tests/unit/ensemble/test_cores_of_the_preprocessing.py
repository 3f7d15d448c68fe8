"""The fewest CPU cores whose measured throughput meets the demand."""

import pytest

from gputopo.ensemble.preprocessing import preprocessor_cores
from gputopo.ensemble.rates import EnsembleError
from support.ensembles import PROBED_CORES

MEASURED = {cores: 50.0 * cores**0.9 for cores in PROBED_CORES}


@pytest.mark.parametrize(("rates", "cores"), [([], 1), ([50], 1), ([51, 20], 2), ([90, 93.3], 2)])
def test_shared_items_are_prepared_for_the_fastest_member(rates: list[float], cores: int) -> None:
    found = preprocessor_cores(rates, MEASURED, items_are_shared=True)
    assert (found.cores, found.reason) == (cores, "")
    assert found.demand == max(rates, default=0)


def test_own_items_are_prepared_for_each_member() -> None:
    found = preprocessor_cores([100, 100, 100], MEASURED, items_are_shared=False)
    assert (found.cores, found.demand) == (8, 300)


def test_demand_that_is_too_high_is_stated() -> None:
    found = preprocessor_cores([400], {1: 50, 2: 99, 4: 99}, items_are_shared=True)
    assert (found.cores, found.throughput) == (2, 99)
    assert found.reason == "2 cores deliver 99 of 400 items per second"


@pytest.mark.parametrize("throughput", [{}, {0: 5}, {1: 0}, {1: float("nan")}])
def test_impossible_throughput_is_rejected(throughput: dict[int, float]) -> None:
    with pytest.raises(EnsembleError, match="throughput: "):
        preprocessor_cores([1], throughput, items_are_shared=True)
