"""Group the links of a node by type, and describe each type in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gputopo.topology.model import Ancestor, Link, LinkKind, NodeTopology
from gputopo_explain.text import format_gb_per_s

_ANCESTORS: Final[Mapping[Ancestor, str]] = MappingProxyType(
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
class LinkType:
    """A type of link. A picture draws all links of a type alike.

    Attributes:
        label: the label of ``nvidia-smi topo -m``: ``NV2``, ``PIX``, ...
        description: the label in words.
    """

    label: str
    description: str
    kind: LinkKind
    mb_per_s: int


def link_type(link: Link) -> LinkType:
    """Return the type of a link."""
    if link.kind is LinkKind.PCIE:
        words = f"PCIe {link.version} x{link.count} {_ANCESTORS[link.ancestor]}"
        return LinkType(link.ancestor.value, words, link.kind, link.bandwidth_mb_per_s)
    links = "NVLink" if link.count == 1 else "NVLinks"
    through = " through NVSwitch" if link.kind is LinkKind.NVSWITCH else ""
    words = f"{link.count} {links} of generation {link.version}{through}"
    return LinkType(f"NV{link.count}", words, link.kind, link.bandwidth_mb_per_s)


def link_types(topology: NodeTopology) -> list[LinkType]:
    """Return the types of a node's links: NVLinks, then PCIe, each from fast to slow."""
    distance = list(Ancestor)
    found = {link_type(link): distance.index(link.ancestor) for link in topology.links}
    return sorted(
        found,
        key=lambda each: (each.kind is LinkKind.PCIE, -each.mb_per_s, found[each], each.label),
    )


def format_legend(link: LinkType) -> str:
    """Return one line that explains a link type.

    >>> format_legend(LinkType("NV2", "2 NVLinks of generation 2", LinkKind.NVLINK, 50_000))
    'NV2     50 GB/s  2 NVLinks of generation 2'
    """
    return f"{link.label:5} {format_gb_per_s(link.mb_per_s):>4} GB/s  {link.description}"
