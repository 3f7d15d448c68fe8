"""Links in words: what a cell of the matrix, a legend and a picture call them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gputopo.topology.model import Ancestor, Link, LinkKind, NodeTopology
from gputopo_cli.shared.output import figure

MEETING: Final[Mapping[Ancestor, str]] = MappingProxyType(
    {
        Ancestor.INTERNAL: "on one board",
        Ancestor.PIX: "through one switch",
        Ancestor.PXB: "through several switches",
        Ancestor.PHB: "through one host bridge",
        Ancestor.NODE: "between host bridges of one socket",
        Ancestor.SYS: "across sockets",
    }
)


@dataclass(frozen=True, slots=True)
class Sort:
    """Links that look alike in a picture.

    Attributes:
        label: as ``nvidia-smi topo -m`` writes it: ``NV2``, ``PIX``, ...
        words: what that means.
    """

    label: str
    words: str
    kind: LinkKind
    mb_per_s: int


def sort_of(link: Link) -> Sort:
    """Return what sort of link this is."""
    if link.kind is LinkKind.PCIE:
        words = f"PCIe {link.version} x{link.count} {MEETING[link.ancestor]}"
        return Sort(link.ancestor.value, words, link.kind, link.bandwidth_mb_per_s)
    links = "NVLink" if link.count == 1 else "NVLinks"
    through = " through NVSwitch" if link.kind is LinkKind.NVSWITCH else ""
    words = f"{link.count} {links} of generation {link.version}{through}"
    return Sort(f"NV{link.count}", words, link.kind, link.bandwidth_mb_per_s)


def sorts(topology: NodeTopology) -> list[Sort]:
    """Return the sorts of a node's links: NVLink first, the fastest first, near before far."""
    order = list(Ancestor)
    found = {sort_of(link): order.index(link.ancestor) for link in topology.links}
    return sorted(
        found,
        key=lambda sort: (sort.kind is LinkKind.PCIE, -sort.mb_per_s, found[sort], sort.label),
    )


def legend(sort: Sort) -> str:
    """Return one line on a sort.

    >>> legend(Sort("NV2", "2 NVLinks of generation 2", LinkKind.NVLINK, 50_000))
    'NV2     50 GB/s  2 NVLinks of generation 2'
    """
    return f"{sort.label:5} {figure(sort.mb_per_s):>4} GB/s  {sort.words}"
