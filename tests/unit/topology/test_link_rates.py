"""Bandwidth of links by type, generation and count."""

import pytest

from gputopo.topology.model import LinkKind, TopologyError
from gputopo.topology.rates import link_rate_mb_per_s, pcie_version_beside


@pytest.mark.parametrize(
    ("kind", "version", "count", "gb_per_s"),
    [
        (LinkKind.NVLINK, 1, 1, 20),
        (LinkKind.NVLINK, 2, 1, 25),
        (LinkKind.NVLINK, 2, 2, 50),
        (LinkKind.NVLINK, 3, 4, 100),
        (LinkKind.NVSWITCH, 3, 12, 300),
        (LinkKind.NVSWITCH, 4, 18, 450),
        (LinkKind.NVSWITCH, 5, 18, 900),
        (LinkKind.PCIE, 3, 16, 12),
        (LinkKind.PCIE, 3, 8, 6),
        (LinkKind.PCIE, 4, 16, 24),
        (LinkKind.PCIE, 5, 16, 48),
    ],
)
def test_a_link_has_the_bandwidth_of_its_data_sheet(
    kind: LinkKind, version: int, count: int, gb_per_s: int
) -> None:
    assert link_rate_mb_per_s(kind, version, count) == gb_per_s * 1000


def test_one_lane_of_pcie_1_has_a_positive_bandwidth() -> None:
    assert link_rate_mb_per_s(LinkKind.PCIE, 1, 1) == 187


@pytest.mark.parametrize("model", ["NVIDIA RTX A6000", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA A40"])
def test_a_bridge_between_workstation_boards_is_slower_than_its_generation(model: str) -> None:
    assert link_rate_mb_per_s(LinkKind.NVLINK, 3, 4, model) == 56_248


@pytest.mark.parametrize("model", ["NVIDIA A100-SXM4-40GB", "NVIDIA A400", ""])
def test_other_boards_have_the_bandwidth_of_their_generation(model: str) -> None:
    assert link_rate_mb_per_s(LinkKind.NVLINK, 3, 4, model) == 100_000


def test_the_model_does_not_change_pcie_bandwidth() -> None:
    assert link_rate_mb_per_s(LinkKind.PCIE, 4, 16, "NVIDIA RTX A6000") == 24_000


@pytest.mark.parametrize("kind", list(LinkKind))
def test_an_unknown_generation_is_rejected_with_the_known_ones(kind: LinkKind) -> None:
    with pytest.raises(
        TopologyError, match=rf"version: {kind} generation 99 is not one of 1, 2, 3"
    ):
        link_rate_mb_per_s(kind, 99, 1)


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_below_one_is_rejected(count: int) -> None:
    with pytest.raises(TopologyError, match=f"count: {count} is below 1"):
        link_rate_mb_per_s(LinkKind.PCIE, 3, count)


def test_the_pcie_generation_follows_the_nvlink_generation() -> None:
    assert [pcie_version_beside(version) for version in range(7)] == [3, 3, 3, 4, 5, 5, 5]
