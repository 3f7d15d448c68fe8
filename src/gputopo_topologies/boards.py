"""What the name of a GPU tells of its links, and what link counts tell without a name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

NVLINKS_OF_A_GPU: Final[Mapping[int, int]] = MappingProxyType({1: 4, 2: 6, 3: 12, 4: 18, 5: 18})
"""The most NVLinks that a GPU has, by generation (P100, V100, A100, H100, B200)."""

_BRIDGE_OF_AMPERE: Final = 4
_MEMORY: Final = re.compile(r"\b(\d+) ?GB\b")


@dataclass(frozen=True, slots=True)
class Board:
    """Generations of a GPU's links; 0 where it has no NVLink."""

    nvlink_version: int
    pcie_version: int


_BOARDS: Final = tuple(
    (re.compile(rf"\b({models})"), Board(nvlink, pcie))
    for models, nvlink, pcie in (
        (r"G?B[123]00", 5, 5),
        (r"G?H(100|200|800)|H20", 4, 5),
        (r"A(100|800|30|40)\b|RTX A\d{4}|RTX 30\d0", 3, 4),
        (r"A(2|10|10G|16)\b|L(4|20|40|40S)\b|RTX 40\d0|RTX \d{4} Ada", 0, 4),
        (r"RTX 50\d0|RTX PRO", 0, 5),
        (r"V100|GV100|TITAN V|RTX 20\d0|TITAN RTX|Quadro RTX", 2, 3),
        (r"P100", 1, 3),
        (r"T4\b|P4\b|P40|M40|M60|K80|GTX", 0, 3),
    )
)


def board_of_model(model: str) -> Board | None:
    """Return what is known of a model as NVIDIA names it, None of one that is not known.

    >>> board_of_model("Tesla V100-SXM2-32GB")
    Board(nvlink_version=2, pcie_version=3)
    """
    return next((board for pattern, board in _BOARDS if pattern.search(model)), None)


def memory_gib_of_model(model: str) -> int:
    """Return the GiB that a model's name says, 0 where it says none."""
    found = _MEMORY.search(model.replace("-", " "))
    return int(found[1]) if found else 0


def nvlink_version_of_counts(most_on_a_pair: int, most_on_a_gpu: int) -> int:
    """Return the likeliest generation of unnamed GPUs; 0 where they have no NVLink.

    It is the oldest of 2, 3 and 4 whose GPUs have so many links; behind a switch, a pair's
    links are all that the GPU has. Four links on a pair are the bridge or mesh of generation 3.

    Args:
        most_on_a_pair: the most NVLinks that a pair shows.
        most_on_a_gpu: the most that a GPU shows to all its peers together.
    """
    if not most_on_a_pair:
        return 0
    links = most_on_a_pair if shows_a_switch(most_on_a_gpu) else most_on_a_gpu
    oldest = 3 if most_on_a_pair == _BRIDGE_OF_AMPERE else 2
    return next((v for v in (oldest, 3, 4) if links <= NVLINKS_OF_A_GPU[v]), 4)


def shows_a_switch(nvlinks_of_a_gpu: int) -> bool:
    """Return whether a GPU shows more NVLinks to all its peers together than any GPU has.

    Then it reaches each of them over the same links, through a switch. Two GPUs cut out of
    a larger node, say into a virtual machine, do not show it.
    """
    return nvlinks_of_a_gpu > max(NVLINKS_OF_A_GPU.values())
