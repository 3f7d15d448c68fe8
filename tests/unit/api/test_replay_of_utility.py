"""The record of a decision by utility is bounded and gives the same surroundings again."""

import pytest

from gputopo.api.replay import RecordedUtility
from gputopo.topology.model import GpuMask
from gputopo.utility.cost import CostScale, UtilityError
from gputopo.utility.interference import SlowdownSource
from gputopo.utility.surroundings import NodeNeighbour, PairSlowdown, Surroundings
from gputopo.utility.utility import UtilityWeights

LONGEST = 2400
"""A record of 15 neighbours. The rest of the annotation has up to 1,600 bytes without edges."""


def neighbour(number: int, workload: str) -> NodeNeighbour:
    return NodeNeighbour(
        workload,
        GpuMask(1 << number),
        suffered=PairSlowdown(24, SlowdownSource.MEASURED),
        caused=PairSlowdown(12, SlowdownSource.GROUP),
        far=(3, 0) if number % 2 else None,
    )


def surroundings(*neighbours: NodeNeighbour) -> Surroundings:
    return Surroundings(
        CostScale(2, 42, 8), neighbours, worst_percent=30, weights=UtilityWeights(0.5, 0.4, 0.1)
    )


def test_record_gives_the_same_surroundings() -> None:
    around = surroundings(*(neighbour(number, f"team/job-{number}") for number in range(15)))
    record = RecordedUtility.of(around, 30)
    parsed = RecordedUtility.model_validate_json(record.model_dump_json(by_alias=True))
    assert parsed.surroundings() == around
    assert parsed.minimum_percent == 30


def test_record_of_a_node_without_jobs_is_short() -> None:
    record = RecordedUtility.of(surroundings(), None)
    assert record.model_dump(by_alias=True, exclude_defaults=True) == {
        "weights": (50, 40, 10),
        "bestLength": 2,
        "longest": 42,
        "largestSocket": 8,
        "worstPercent": 30,
    }


def test_record_of_fifteen_neighbours_with_long_names_is_bounded() -> None:
    around = surroundings(*(neighbour(number, "n" * 63 + "/" + "p" * 253) for number in range(15)))
    text = RecordedUtility.of(around, 100).model_dump_json(by_alias=True, exclude_defaults=True)
    assert len(text) <= LONGEST
    assert all(len(each.workload) == 44 for each in RecordedUtility.of(around, 100).neighbours)


def test_names_of_earlier_versions_are_read() -> None:
    record = RecordedUtility.of(surroundings(neighbour(0, "n")), None).to_json()
    record["neighbours"][0]["workload"] = "n" * 64
    assert RecordedUtility.model_validate(record).neighbours[0].workload == "n" * 64


def test_weights_that_contradict_each_other_are_rejected() -> None:
    record = RecordedUtility(weights=(50, 40, 0), best_length=0, longest=0, largest_socket=1)
    with pytest.raises(UtilityError, match=r"sum is 0\.9"):
        record.surroundings()
