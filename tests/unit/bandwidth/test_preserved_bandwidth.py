"""What the free GPUs are still worth."""

from builders import DOUBLE, gpus, node
from gputopo.bandwidth.preserved import preserved_mb_per_s, preserved_table
from gputopo.topology.catalogue import named
from gputopo.topology.model import GpuMask


def test_all_links_among_the_free_count_pcie_included() -> None:
    topology = node(0, 1, 2, 5, links={(0, 5): DOUBLE})
    assert preserved_mb_per_s(topology, gpus(0, 1, 5)) == 50_000 + 2 * 12_000


def test_one_free_gpu_or_none_is_worth_nothing() -> None:
    assert preserved_mb_per_s(node(0, 1), gpus(1)) == 0
    assert preserved_mb_per_s(node(0, 1), GpuMask(0)) == 0


def test_mapas_figure_10_leaves_286_gb_per_s() -> None:
    topology = named("dgx1-v100")
    left = GpuMask(topology.mask & ~gpus(0, 1, 3))
    assert preserved_mb_per_s(topology, left) == 286_000


def test_the_table_has_every_subset() -> None:
    topology = node(7, 0, 3, 1, links={(0, 7): DOUBLE, (1, 3): DOUBLE})
    table = preserved_table(topology)
    assert len(table) == 16
    assert table == {free: preserved_mb_per_s(topology, free) for free in table}
