"""Preserved bandwidth of the free GPUs."""

import pytest

from gputopo.bandwidth.preserved import preserved_mb_per_s, preserved_table
from gputopo.catalogue import named
from gputopo.topology.model import GpuMask
from support.builders.topologies import DOUBLE, gpus, node
from support.mapa_oracle import mapa_rows


def test_all_links_among_free_gpus_count_also_pcie() -> None:
    topology = node(0, 1, 2, 5, links={(0, 5): DOUBLE})
    assert preserved_mb_per_s(topology, gpus(0, 1, 5)) == 50_000 + 2 * 12_000


def test_fewer_than_two_free_gpus_have_no_bandwidth() -> None:
    assert preserved_mb_per_s(node(0, 1), gpus(1)) == 0
    assert preserved_mb_per_s(node(0, 1), GpuMask(0)) == 0


def test_mapas_figure_10_leaves_286_gb_per_s() -> None:
    topology = named("dgx1-v100")
    left = GpuMask(topology.mask & ~gpus(0, 1, 3))
    assert preserved_mb_per_s(topology, left) == 286_000


def test_the_table_has_every_subset_by_its_mask_of_positions() -> None:
    topology = node(7, 0, 3, 1, links={(0, 7): DOUBLE, (1, 3): DOUBLE})
    indices = (0, 1, 3, 7)
    subsets = [
        gpus(*(index for place, index in enumerate(indices) if mask >> place & 1))
        for mask in range(16)
    ]
    expected = [preserved_mb_per_s(topology, free) for free in subsets]
    assert preserved_table(topology).tolist() == expected


@pytest.mark.parametrize("row", mapa_rows("dgxv_allocations.csv"), ids=lambda row: row["set"])
def test_values_of_every_set_of_a_dgx_1_equal_those_of_mapa(row: dict[str, str]) -> None:
    topology = named("dgx1-v100")
    members = gpus(*(int(number) - 1 for number in row["set"].split("-")))
    left = GpuMask(topology.mask & ~members)
    assert preserved_mb_per_s(topology, left) == int(row["preserved_all12"]) * 1000
