"""One model for a node and a pattern, named; MAPA's own numbers for all sets of a DGX-1."""

import pytest

from builders import gpus
from gputopo.bandwidth import aggregate, eq2
from gputopo.bandwidth.effective import default_model, effective_table
from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.model import Pattern, all_to_all, ring
from gputopo.topology.catalogue import named
from gputopo.topology.model import GpuMask
from oracle import mapa_rows

DGX1 = named("dgx1-v100")


def test_one_gpu_has_no_model() -> None:
    table = effective_table(DGX1, ring(1))
    assert (table.model, table.mb_per_s) == (None, {})


@pytest.mark.parametrize(
    ("name", "pattern", "model"),
    [
        ("dgx1-v100", ring(5), "eq2"),
        ("dgx1-v100", ring(6), "aggregate"),
        ("dgx1-v100", all_to_all(3), "aggregate"),
        ("dgx-a100", ring(3), "aggregate"),
    ],
)
def test_equation_2_in_its_domain_and_the_aggregate_elsewhere(
    name: str, pattern: Pattern, model: str
) -> None:
    assert effective_table(named(name), pattern).model == model


def test_the_aggregate_model_gives_the_aggregate() -> None:
    table = effective_table(named("dgx-a100"), ring(3))
    assert set(table.mb_per_s.values()) == {900_000}


def test_the_choice_of_the_model_is_the_functions_name_and_itself() -> None:
    assert default_model(DGX1, ring(2)) == (eq2.NAME, eq2.effective_mb_per_s)
    assert default_model(DGX1, ring(8)) == (aggregate.NAME, aggregate.effective_mb_per_s)


@pytest.mark.parametrize("row", mapa_rows("dgxv_allocations.csv"), ids=lambda row: row["set"])
def test_every_set_has_mapas_link_mix_and_bandwidths(row: dict[str, str]) -> None:
    size = int(row["gpus"])
    members = gpus(*(int(number) - 1 for number in row["set"].split("-")))
    found = embeddings(DGX1, ring(size))[members]
    mix = eq2.link_mix(DGX1, ring(size), found)
    assert mix == (int(row["x"]), int(row["y"]), int(row["z"]))
    assert found.aggregate_mb_per_s == int(row["aggbw12"]) * 1000
    assert eq2.predicted_gb_per_s(*mix) == pytest.approx(float(row["effbw"]), abs=0.0001)
    left = GpuMask(DGX1.mask & ~members)
    assert preserved_mb_per_s(DGX1, left) == int(row["preserved_all12"]) * 1000
