"""The load of a workload on its GPUs in one step."""

from typing import Any

from gputopo.api.profile import Sample
from gputopo.profiles.loads import load_facts
from support.builders.samples import sample


def loaded(number: int, source: str, occupancy: int, dram: int | None = None) -> Sample:
    load: dict[str, Any] = {"source": source, "occupancyMicroseconds": occupancy}
    return sample(number, load=load if dram is None else load | {"dramMicroseconds": dram})


def test_load_is_the_mean_of_the_best_source() -> None:
    (fact,) = load_facts(
        [
            loaded(1, "Utilization", 90_000),
            loaded(2, "DCGM", 40_000, 20_000),
            loaded(3, "DCGM", 42_000),
            sample(4),
        ]
    )
    assert (fact.gpus, fact.source, fact.samples) == (2, "DCGM", 2)
    assert (fact.occupancy_us, fact.dram_us) == (41_000, 20_000)


def test_each_number_of_gpus_has_its_own_load_and_dram_may_be_unknown() -> None:
    one = loaded(1, "GPM", 10).model_copy(update={"gpus": 1})
    found = load_facts([one, loaded(2, "Utilization", 20)])
    assert [(fact.gpus, fact.source, fact.dram_us) for fact in found] == [
        (1, "GPM", None),
        (2, "Utilization", None),
    ]


def test_load_of_an_unknown_source_is_ignored() -> None:
    assert load_facts([loaded(1, "Newer", 10)]) == []
