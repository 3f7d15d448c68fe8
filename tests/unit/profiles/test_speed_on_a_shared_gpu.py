"""How fast a workload runs while others share its GPU."""

import pytest

from gputopo.api.profile import MAX_SHARING_FACTS, Sample
from gputopo.profiles.facts import workload_facts
from gputopo.profiles.retention import retain
from gputopo.profiles.shared import alone_on_gpu, gpu_facts
from support.builders.samples import sample

MICRO = 1_000_000


def shared(number: int, rate: float, *beside: str, **fields: object) -> Sample:
    """Return a sample of one GPU; ``rate`` is in steps per second."""
    known = {"gpuNeighbours": list(beside)} if beside else {}
    return sample(number, gpus=1, microStepsPerSecond=round(rate * MICRO), **known, **fields)


ALONE = [shared(number, rate) for number, rate in enumerate((9.9, 10.0, 10.1))]


def test_speed_is_relative_to_that_alone() -> None:
    [fact] = gpu_facts([*ALONE, *(shared(9 + n, 8.0 + n / 10, "ml/b") for n in (-1, 0, 1))]).beside
    assert (fact.beside, fact.speed_permille, fact.samples) == (["ml/b"], 800, 3)
    assert 0 < fact.ci_permille < 100


def test_order_of_the_neighbours_is_not_important() -> None:
    samples = [
        *(shared(9, 5.0, "ml/b", "ml/c"), shared(10, 5.0, "ml/c", "ml/b")),
        *(shared(11, 5.0, "ml/b", "ml/c"), shared(12, 4.0, "ml/b", "ml/b")),
    ]
    found = gpu_facts([*ALONE, *samples]).beside
    assert [(fact.beside, fact.speed_permille, fact.samples) for fact in found] == [
        (["ml/b", "ml/b"], 400, 1),
        (["ml/b", "ml/c"], 500, 3),
    ]


def test_one_sample_beside_others_is_enough() -> None:
    [fact] = gpu_facts([*ALONE, shared(9, 3.0, "ml/b")]).beside
    assert (fact.speed_permille, fact.samples) == (300, 1)


@pytest.mark.parametrize(
    "samples",
    [
        [shared(9 + number, 8.0, "ml/b") for number in range(3)],
        [*ALONE[:1], *(shared(9 + number, 8.0, "ml/b") for number in range(3))],
        [*ALONE, *(shared(9 + number, 8.0, "ml/") for number in range(3))],
        [*ALONE, *(shared(9 + number, 8.0, "ml/b", "ml/") for number in range(3))],
        [],
    ],
)
def test_speed_needs_samples_alone_and_known_workloads(samples: list[Sample]) -> None:
    assert gpu_facts(samples).beside == []


def test_samples_of_several_gpus_do_not_count() -> None:
    several = [sample(9 + number, gpuNeighbours=["ml/b"]) for number in range(3)]
    assert gpu_facts([*ALONE, *several]).beside == []


def test_sets_with_the_most_samples_stay() -> None:
    often = [shared(900 + n, 8.0, "ml/z") for n in range(4)]
    many = [
        shared(10 + 3 * w + n, 8.0, f"ml/w{w:02}")
        for w in range(MAX_SHARING_FACTS)
        for n in range(3)
    ]
    found = gpu_facts([*ALONE, *many, *often]).beside
    assert len(found) == MAX_SHARING_FACTS
    assert [fact.beside for fact in found] == sorted(fact.beside for fact in found)
    assert found[-1].beside == ["ml/z"]
    assert ["ml/w31"] not in [fact.beside for fact in found]


@pytest.mark.parametrize(("rate", "permille"), [(0.000001, 1), (900.0, 10_000)])
def test_speed_stays_in_the_range_of_the_api(rate: float, permille: int) -> None:
    [fact] = gpu_facts([*ALONE, *(shared(9 + n, rate, "ml/b") for n in range(3))]).beside
    assert fact.speed_permille == permille


def test_other_facts_are_those_alone_on_the_gpu() -> None:
    slow = [shared(9 + number, 2.0, "ml/b") for number in range(3)]
    facts = workload_facts([*ALONE, *slow])
    assert facts is not None
    [fact] = facts.scaling
    assert fact.micro_steps_per_second == pytest.approx(10 * MICRO, rel=0.01)
    assert [each.speed_permille for each in facts.sharing] == [200]
    assert alone_on_gpu([*ALONE, *slow]) == ALONE


def test_workload_that_never_ran_alone_has_facts_without_rates() -> None:
    facts = workload_facts([shared(9 + number, 2.0, "ml/b") for number in range(3)])
    assert facts is not None
    assert (facts.scaling, facts.sharing, facts.gpu_model) == ([], [], ALONE[0].gpu_model)
    assert facts.alone is None


def test_rate_alone_is_known_after_three_samples() -> None:
    facts = workload_facts([*ALONE, shared(9, 2.0, "ml/b")])
    assert facts is not None
    assert facts.alone is not None
    assert (facts.alone.micro_steps_per_second, facts.alone.samples) == (10 * MICRO, 3)
    assert 0 < facts.alone.ci_permille < 100


def test_newest_sample_of_each_set_on_the_gpu_is_kept() -> None:
    old = shared(0, 8.0, "ml/b")
    kept = retain([old, *(shared(1 + number, 10.0) for number in range(100))])
    assert old in kept
