"""The facts of a GPUProfile show what is known of a workload alone."""

import pytest

from gputopo.api.profile import AloneFact, LoadFact, WorkloadFacts
from gputopo.sharing.facts import sharing_workload
from gputopo.sharing.model import SharingWorkload, StepLoad


def facts(*, gpus: int = 1, rate: int | None = 2_500_000, source: str = "GPM") -> WorkloadFacts:
    return WorkloadFacts(
        gpu_model="V100",
        image_digest="sha256:1",
        alone=None
        if rate is None
        else AloneFact(micro_steps_per_second=rate, ci_permille=20, samples=3),
        load=[LoadFact(gpus=gpus, source=source, samples=3, occupancy_us=80_000, dram_us=40_000)],
    )


def test_rate_load_and_image_are_used() -> None:
    found = sharing_workload("t/a", facts())
    assert (found.name, found.family) == ("t/a", "sha256:1")
    assert found.steps_per_second == pytest.approx(2.5)
    assert found.load == StepLoad(80_000, 40_000)


def test_only_measurements_of_one_gpu_are_used() -> None:
    found = sharing_workload("t/a", facts(gpus=2, rate=None))
    assert found == SharingWorkload("t/a", "sha256:1")
    assert sharing_workload("t/a", facts(rate=0)).steps_per_second is None


def test_utilisation_is_not_an_occupancy() -> None:
    assert sharing_workload("t/a", facts(source="Utilization")).load is None


def test_nothing_is_known_without_facts() -> None:
    assert sharing_workload("t/a", None) == SharingWorkload("t/a")
