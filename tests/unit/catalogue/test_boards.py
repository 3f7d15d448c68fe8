"""Link generations by model name and by NVLink counts."""

import pytest

from gputopo.catalogue.boards import (
    Board,
    board_of_model,
    memory_gib_of_model,
    nvlink_version_of_counts,
)


@pytest.mark.parametrize(
    ("model", "nvlink", "pcie"),
    [
        ("Tesla P100-SXM2-16GB", 1, 3),
        ("Tesla V100-SXM3-32GB", 2, 3),
        ("Quadro GV100", 2, 3),
        ("NVIDIA TITAN RTX", 2, 3),
        ("NVIDIA GeForce RTX 2080 Ti", 2, 3),
        ("Quadro RTX 3000", 0, 3),
        ("Quadro RTX 4000", 0, 3),
        ("Quadro RTX 5000", 2, 3),
        ("Quadro RTX 6000", 2, 3),
        ("Quadro RTX 8000", 2, 3),
        ("Tesla T4", 0, 3),
        ("Tesla P40", 0, 3),
        ("NVIDIA A100-SXM4-40GB", 3, 4),
        ("NVIDIA A100 80GB PCIe", 3, 4),
        ("NVIDIA A800-SXM4-80GB", 3, 4),
        ("NVIDIA A40", 3, 4),
        ("NVIDIA RTX A6000", 3, 4),
        ("NVIDIA GeForce RTX 3090", 3, 4),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", 3, 4),
        ("NVIDIA A10", 0, 4),
        ("NVIDIA A10G", 0, 4),
        ("NVIDIA L4", 0, 4),
        ("NVIDIA L40S", 0, 4),
        ("NVIDIA GeForce RTX 4090", 0, 4),
        ("NVIDIA RTX 4000 SFF Ada Generation", 0, 4),
        ("NVIDIA RTX 5000 Ada Generation", 0, 4),
        ("NVIDIA RTX 6000 Ada Generation", 0, 4),
        ("NVIDIA GeForce RTX 5090", 0, 5),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 0, 5),
        ("NVIDIA H100 80GB HBM3", 4, 5),
        ("NVIDIA H20", 4, 5),
        ("NVIDIA H200", 4, 5),
        ("NVIDIA GH200 480GB", 4, 5),
        ("NVIDIA B200", 5, 5),
        ("NVIDIA GB200", 5, 5),
        ("NVIDIA B300 SXM6 AC", 5, 5),
    ],
)
def test_a_known_model_gives_the_generations_of_its_links(
    model: str, nvlink: int, pcie: int
) -> None:
    assert board_of_model(model) == Board(nvlink, pcie)


@pytest.mark.parametrize("model", ["", "Radeon VII", "NVIDIA A1000", "NVIDIA T400"])
def test_other_models_are_unknown(model: str) -> None:
    assert board_of_model(model) is None


def test_memory_is_parsed_from_the_name() -> None:
    assert memory_gib_of_model("Tesla V100-SXM2-32GB") == 32
    assert memory_gib_of_model("NVIDIA A100 80GB PCIe") == 80
    assert memory_gib_of_model("Tesla T4") == 0


@pytest.mark.parametrize(
    ("on_a_pair", "on_a_gpu", "version"),
    [
        (0, 0, 0),
        (2, 6, 2),
        (3, 3, 2),
        (4, 4, 3),
        (4, 12, 3),
        (6, 18, 4),
        (6, 90, 2),
        (12, 12, 3),
        (12, 84, 3),
        (8, 56, 3),
        (18, 126, 4),
        (18, 18, 4),
        (99, 99, 4),
    ],
)
def test_counts_give_the_likeliest_generation(on_a_pair: int, on_a_gpu: int, version: int) -> None:
    assert nvlink_version_of_counts(on_a_pair, on_a_gpu) == version
