"""Peak bandwidth of a link, by type, generation and count."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.topology.model import LinkKind, TopologyError

NVLINK_MB_PER_S: Final[Mapping[int, int]] = MappingProxyType(
    {1: 20_000, 2: 25_000, 3: 25_000, 4: 25_000, 5: 50_000}
)
"""Bandwidth of one NVLink in one direction, by generation (1 and 2: MAPA, table 1)."""

_SLOWER_NVLINKS: Final = re.compile(r"\b(RTX (3090|A6000|A5500|A5000|A4500)|A40)\b")
_SLOWER_MB_PER_S: Final = 14_062
"""Bandwidth of one NVLink 3 of a board with the GA102 chip, whose links have a lower clock.

``nvidia-smi nvlink -s`` prints this value on these boards. Their data sheets state 112.5 GB/s for
four links and both directions together.
"""

PCIE_X16_MB_PER_S: Final[Mapping[int, int]] = MappingProxyType(
    {1: 3_000, 2: 6_000, 3: 12_000, 4: 24_000, 5: 48_000, 6: 96_000}
)
"""Bandwidth of 16 PCIe lanes in one direction, by generation.

Generation 3 is from MAPA, table 1. Each generation doubles the rate of the previous one.
"""

PCIE_LANES: Final = 16

_PCIE_BESIDE_NVLINK: Final[Mapping[int, int]] = MappingProxyType({0: 3, 1: 3, 2: 3, 3: 4})
_NEWEST_PCIE_BESIDE_NVLINK: Final = 5


def pcie_version_beside(nvlink_version: int) -> int:
    """Return the PCIe generation of servers with this NVLink generation (0: without NVLinks).

    >>> pcie_version_beside(4)
    5
    """
    return _PCIE_BESIDE_NVLINK.get(nvlink_version, _NEWEST_PCIE_BESIDE_NVLINK)


def link_rate_mb_per_s(kind: LinkKind, version: int, count: int, model: str = "") -> int:
    """Return the peak bandwidth of a link in one direction, in 10^6 bytes per second.

    Args:
        kind: link type; an NVSwitch link has the rate of its NVLinks.
        version: generation of NVLink (1..5, not NVML's own numbering) or PCIe (1..6).
        count: NVLinks in parallel, or PCIe lanes; at least 1.
        model: model name of the GPUs; a few models have slower NVLinks than their generation.

    >>> link_rate_mb_per_s(LinkKind.NVLINK, 2, 2)
    50000

    Raises:
        TopologyError: on an unknown generation, or a count below 1.
    """
    if count < 1:
        raise TopologyError(f"count: {count} is below 1; a {kind} link has a count of at least 1")
    rates = PCIE_X16_MB_PER_S if kind is LinkKind.PCIE else NVLINK_MB_PER_S
    if version not in rates:
        known = ", ".join(str(known) for known in rates)
        raise TopologyError(f"version: {kind} generation {version} is not one of {known}")
    if kind is LinkKind.PCIE:
        return rates[version] * count // PCIE_LANES
    if _SLOWER_NVLINKS.search(model):
        return _SLOWER_MB_PER_S * count
    return rates[version] * count
