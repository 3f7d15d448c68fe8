"""Speeds are predicted by the best known source, or are unknown."""

import pytest

from gputopo.sharing.estimate import SpeedSource
from gputopo.sharing.loadlaw import LoadCapacity
from gputopo.sharing.model import SharingWorkload
from gputopo.sharing.pairs import MAX_PAIRS, PairModel
from gputopo.sharing.predictor import SharingPredictor
from gputopo.sharing.similarity import similarity
from support.sharing import gavel, measured, workload

A, B, C = (workload(name) for name in ("t/a", "t/b", "t/c"))
PAIRS = [
    measured(("t/a", 0.5), ("t/b", 0.5)),
    measured(("t/a", 0.5), ("t/c", 0.5)),
    measured(("t/b", 0.5), ("t/c", 0.5)),
]


def test_similarity_falls_with_the_distance_of_the_rates() -> None:
    one = workload("a", 10, "resnet")
    assert similarity(one, one) == 1
    assert similarity(one, workload("b", 10, "resnet")) == pytest.approx(0.95)
    assert similarity(one, workload("b", 10, "lstm")) == pytest.approx(0.2)
    twice = similarity(one, workload("b", 20, "resnet"))
    assert 0.7 < twice < 0.8
    assert similarity(one, workload("b", 100, "resnet")) < twice


def test_workload_without_rate_or_name_is_similar_only_to_itself() -> None:
    assert similarity(workload("a", None, "f"), workload("b", 10, "f")) == 0
    assert similarity(workload("a", 10, "f"), workload("b", None, "f")) == 0
    assert similarity(workload("", 10), workload("", 10)) == pytest.approx(0.2)


def test_measured_pair_is_predicted_as_measured() -> None:
    found = SharingPredictor([measured(("t/a", 0.4), ("t/b", 0.9))], [A, B]).predict([B, A])
    assert [speed.value for speed in found.speeds] == [0.9, 0.4]
    assert {speed.source for speed in found.speeds} == {SpeedSource.MEASURED}
    assert found.gain is not None
    assert found.gain.summed_speed == pytest.approx(1.3)


def test_interval_of_a_measured_pair_narrows_with_samples() -> None:
    def width(samples: int) -> float:
        fact = measured(("t/a", 0.5), ("t/b", 0.5), samples=samples)
        speed = SharingPredictor([fact]).beside(A, B)
        return speed.high - speed.low

    assert width(1) == pytest.approx(2 * 1.96 * 0.05)
    assert width(4) == pytest.approx(width(1) / 2)


def test_facts_of_one_set_count_once() -> None:
    facts = [measured(("t/a", 0.4), ("t/b", 0.8)), measured(("t/b", 0.6), ("t/a", 0.6))]
    assert SharingPredictor(facts).beside(A, B).value == pytest.approx(0.5)
    assert SharingPredictor(facts[::-1]).beside(A, B) == SharingPredictor(facts).beside(A, B)


def test_two_jobs_of_one_workload_have_the_mean_of_their_speeds() -> None:
    found = SharingPredictor([measured(("t/a", 0.5), ("t/a", 0.7))], [A]).predict([A, A])
    assert [speed.value for speed in found.speeds] == [pytest.approx(0.6)] * 2


def test_nothing_is_known_without_facts_and_loads() -> None:
    found = SharingPredictor().predict([A, B])
    assert [speed.is_known for speed in found.speeds] == [False, False]
    assert found.gain is found.least is found.most is None


def test_similar_pairs_predict_a_pair_of_gavel() -> None:
    pairs = gavel()
    new = "ResNet-18 (batch size 64)"
    predictor = SharingPredictor(pairs.facts({new}), pairs.models.values())
    speed = predictor.beside(pairs.models[new], pairs.models["LM (batch size 5)"])
    assert speed.source is SpeedSource.SIMILAR
    assert speed.low <= pairs.speeds[new, "LM (batch size 5)"] <= speed.high
    assert predictor.beside(pairs.models[new], pairs.models["LM (batch size 5)"]) is speed


def test_new_family_is_unknown() -> None:
    pairs = gavel()
    predictor = SharingPredictor(pairs.facts(), pairs.models.values())
    assert not predictor.beside(workload("new", 20.0, "new"), pairs.models["A3C"]).is_known


def test_loads_predict_a_new_pair_if_the_gpu_model_is_calibrated() -> None:
    heavy = [workload(name, occupancy=0.4, dram=0.1) for name in ("a", "b")]
    found = SharingPredictor(capacity=LoadCapacity(0.5)).beside(*heavy)
    assert found.value == pytest.approx(0.625)
    assert found.source is SpeedSource.LOAD
    assert not SharingPredictor().beside(*heavy).is_known
    assert not SharingPredictor(capacity=LoadCapacity(0.5)).beside(heavy[0], A).is_known


def test_three_jobs_that_each_fill_the_gpu_get_a_third() -> None:
    found = SharingPredictor(PAIRS, [A, B, C]).predict([A, B, C])
    assert [speed.value for speed in found.speeds] == [pytest.approx(1 / 3)] * 3
    assert {speed.source for speed in found.speeds} == {SpeedSource.PAIRS}
    assert found.gain is not None
    assert found.gain.summed_speed == pytest.approx(1)


def test_measured_set_of_three_counts_more_than_its_pairs() -> None:
    three = measured(("t/a", 0.6), ("t/b", 0.5), ("t/c", 0.4))
    found = SharingPredictor([*PAIRS, three], [A, B, C]).predict([C, B, A])
    assert [speed.value for speed in found.speeds] == [0.4, 0.5, 0.6]
    assert found.speeds[0].source is SpeedSource.MEASURED


def test_one_unknown_pair_makes_a_set_unknown() -> None:
    found = SharingPredictor(PAIRS[:2], [A, B]).predict([A, B, C])
    assert [speed.source for speed in found.speeds[1:]] == [SpeedSource.UNKNOWN] * 2
    assert found.gain is None


def test_three_jobs_are_limited_by_the_sum_of_their_loads() -> None:
    """Each pair fits into the GPU, but not all three."""
    light = [workload(name, occupancy=0.25, dram=0) for name in ("a", "b", "c")]
    predictor = SharingPredictor(capacity=LoadCapacity(0.5))
    assert predictor.beside(*light[:2]).value == 1
    assert [speed.value for speed in predictor.predict(light).speeds] == [pytest.approx(2 / 3)] * 3


def test_job_alone_is_not_slower() -> None:
    [speed] = SharingPredictor().predict([A]).speeds
    assert (speed.low, speed.value, speed.high) == (1, 1, 1)


def test_deviation_without_facts_is_that_of_the_prior() -> None:
    found = PairModel([], []).speed(A, B)
    assert found.value == 1
    assert found.deviation == pytest.approx((0.1 + 0.05**2) ** 0.5)


def test_fact_about_an_unknown_workload_is_used_for_this_workload_only() -> None:
    model = PairModel([measured(("t/a", 0.3), ("t/x", 0.9))], [A])
    known = model.speed(SharingWorkload("t/x"), A)
    assert known.value == pytest.approx(0.85, abs=0.06)
    assert model.speed(workload("t/y"), B).deviation > known.deviation


def test_pairs_with_the_most_samples_are_learnt() -> None:
    facts = [measured((f"a{n}", 0.9), (f"b{n}", 0.9)) for n in range(MAX_PAIRS)]
    rare = measured(("zz/a", 0.1), ("zz/b", 0.1))
    often = measured(("zz/a", 0.1), ("zz/b", 0.1), samples=9)
    pair = SharingWorkload("zz/a"), SharingWorkload("zz/b")
    assert PairModel([*facts, rare], []).speed(*pair).value > 0.8
    assert PairModel([*facts, often], []).speed(*pair).value < 0.2
