"""Find the NVLink and PCIe generation of a GPU from its model name or its number of NVLinks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gputopo.topology.model import Ancestor, GpuIndex, Link, LinkKind
from gputopo.topology.rates import link_rate_mb_per_s

NVLINKS_OF_A_GPU: Final[Mapping[int, int]] = MappingProxyType({1: 4, 2: 6, 3: 12, 4: 18, 5: 18})
"""Maximum number of NVLinks of one GPU, by generation (P100, V100, A100, H100, B200)."""

_BRIDGE_OF_AMPERE: Final = 4
_MEMORY: Final = re.compile(r"\b(\d+) ?GB\b")


@dataclass(frozen=True, slots=True)
class Board:
    """NVLink and PCIe generation of a GPU; ``nvlink_version`` is 0 for a GPU without NVLink."""

    nvlink_version: int
    pcie_version: int


BOARDS: Final = tuple(
    (re.compile(rf"\b({models})"), Board(nvlink, pcie))
    for models, nvlink, pcie in (
        (r"G?B[123]00", 5, 5),
        (r"G?H(100|200|800)|H20", 4, 5),
        (r"A(100|800|30|40)\b|RTX A\d{4}|RTX 30[5-9]0", 3, 4),
        (r"A(2|10|10G|16)\b|L(4|20|40|40S)\b|RTX 40[5-9]0|RTX \d{4} (SFF )?Ada", 0, 4),
        (r"RTX 50[5-9]0|RTX PRO", 0, 5),
        (r"Quadro RTX [34]000", 0, 3),
        (r"V100|GV100|TITAN V|RTX 20\d0|TITAN RTX|Quadro RTX", 2, 3),
        (r"P100", 1, 3),
        (r"T4\b|P4\b|P40|M40|M60|K80|GTX", 0, 3),
    )
)
"""Generations by patterns of model names; the first pattern that matches is used.

``40[5-9]0`` is for GeForce RTX 4050 to 4090, and must not match "Quadro RTX 4000", which is older.
"""


def board_of_model(model: str) -> Board | None:
    """Return the link generations of this GPU model, or None if the model is unknown.

    >>> board_of_model("Tesla V100-SXM2-32GB")
    Board(nvlink_version=2, pcie_version=3)
    """
    return next((board for pattern, board in BOARDS if pattern.search(model)), None)


def memory_gib_of_model(model: str) -> int:
    """Return the memory in GiB that the model name contains, or 0 if it contains none."""
    found = _MEMORY.search(model.replace("-", " "))
    return int(found[1]) if found else 0


def nvlink_version_of_counts(most_on_a_pair: int, most_on_a_gpu: int) -> int:
    """Return the probable NVLink generation of GPUs whose model is unknown; 0 means no NVLink.

    A GPU of generation 2, 3 or 4 has at most 6, 12 or 18 NVLinks. The result is the oldest of these
    generations with enough NVLinks. Four NVLinks on a pair (bridge or mesh) show at least 3.

    Examples: 2 links on a pair and 6 on a GPU give 2 (V100). A GPU at an NVSwitch has all its links
    to each peer: 12 links on a pair and 84 on a GPU (12 links * 7 peers) give 3 (A100).

    Args:
        most_on_a_pair: highest number of NVLinks of a pair.
        most_on_a_gpu: highest number of NVLinks of a GPU, summed over its peers.
    """
    if not most_on_a_pair:
        return 0
    links = most_on_a_pair if has_nvswitch(most_on_a_gpu) else most_on_a_gpu
    oldest = 3 if most_on_a_pair == _BRIDGE_OF_AMPERE else 2
    return next((v for v in (oldest, 3, 4) if links <= NVLINKS_OF_A_GPU[v]), 4)


def has_nvswitch(nvlinks_of_a_gpu: int) -> bool:
    """Return whether the GPU has more NVLinks, summed over its peers, than any GPU model has.

    Such a GPU uses the same NVLinks for all peers, through an NVSwitch. If only two GPUs are
    visible, for instance in a virtual machine, the sum is too low and the result is false.
    """
    return nvlinks_of_a_gpu > max(NVLINKS_OF_A_GPU.values())


def rated_link(
    pair: tuple[int, int], best: tuple[LinkKind, int, int], ancestor: Ancestor, model: str
) -> Link:
    """Return the link of two GPUs with its bandwidth. ``best`` is its type, version and count."""
    rate = link_rate_mb_per_s(*best, model)
    return Link(GpuIndex(pair[0]), GpuIndex(pair[1]), *best, ancestor, rate)
