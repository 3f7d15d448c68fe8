"""Format the links of a node as a matrix, in the style of ``nvidia-smi topo -m``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from gputopo.topology.hierarchy import blocks
from gputopo.topology.model import (
    Ancestor,
    Gpu,
    GpuIndex,
    GpuMask,
    LinkKind,
    NodeTopology,
    indices_of,
)
from gputopo_cli.shared.output import format_gb_per_s
from gputopo_explain.drawing.links import LinkType, format_legend, link_type, link_types

_NVLINK_STYLES: Final = ("bold green", "green", "cyan", "blue")
_FAR: Final = (Ancestor.NODE, Ancestor.SYS)
_LEVELS: Final = (
    (Ancestor.NODE, "sockets"),
    (Ancestor.PHB, "host bridges"),
    (Ancestor.PXB, "switch trees"),
    (Ancestor.PIX, "switches"),
)


def format_matrix(
    topology: NodeTopology, states: Mapping[GpuIndex, str], width: int
) -> Iterator[Text]:
    """Yield the lines of the matrix, of a legend, and of the GPUs of each socket and PCIe switch.

    ``states`` has the state of some GPUs, such as ``busy``. A matrix wider than ``width``
    columns is split into several tables, one below the other; a cell is never cut.
    """
    styles = _styles(topology)
    rows = [_row(topology, gpu, states, styles) for gpu in topology.gpus]
    header = [Text(), *(Text(f"GPU{gpu.index}") for gpu in topology.gpus), Text("NUMA")]
    if states:
        header.append(Text("state"))
    yield from _split([header, *rows], width)
    yield Text()
    for each in link_types(topology):
        yield Text(format_legend(each), styles[each])
    for name, groups in _groups(topology):
        yield Text(f"{name}: {' '.join(map(_format_group, groups))}")


def _row(
    topology: NodeTopology,
    gpu: Gpu,
    states: Mapping[GpuIndex, str],
    styles: Mapping[LinkType, str],
) -> list[Text]:
    cells = [Text(f"GPU{gpu.index}", "bold" if gpu.index in states else "")]
    for other in topology.gpus:
        if other.index == gpu.index:
            cells.append(Text("X", "dim"))
            continue
        link = link_type(topology.link_of[gpu.index, other.index])
        cells.append(Text(f"{link.label} {format_gb_per_s(link.mb_per_s)}", styles[link]))
    cells.append(Text("-" if gpu.numa_node is None else str(gpu.numa_node)))
    return [*cells, Text(states.get(gpu.index, ""), "bold magenta")] if states else cells


def _split(rows: Sequence[Sequence[Text]], width: int) -> Iterator[Text]:
    """Yield the lines of the rows, as several tables if one table is wider than ``width``."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table: list[int] = []
    for column in range(1, len(widths)):
        if table and widths[0] + sum(2 + widths[each] for each in (*table, column)) > width:
            yield from _lines(rows, widths, table)
            yield Text()
            table = []
        table.append(column)
    yield from _lines(rows, widths, table)


def _lines(
    rows: Sequence[Sequence[Text]], widths: Sequence[int], columns: Sequence[int]
) -> Iterator[Text]:
    for row in rows:
        line = Text()
        for column in [0, *columns]:
            line.append_text(row[column])
            line.append(" " * (widths[column] - len(row[column]) + 2))
        line.rstrip()
        yield line


def _styles(topology: NodeTopology) -> dict[LinkType, str]:
    styles: dict[LinkType, str] = {}
    nvlinks = 0
    for each in link_types(topology):
        if each.kind is LinkKind.PCIE:
            styles[each] = "dim" if each.label in _FAR else ""
        else:
            styles[each] = _NVLINK_STYLES[min(nvlinks, len(_NVLINK_STYLES) - 1)]
            nvlinks += 1
    return styles


def _groups(topology: NodeTopology) -> Iterator[tuple[str, tuple[GpuMask, ...]]]:
    """Yield a name such as ``sockets``, and the GPUs below each socket, host bridge or switch.

    A level of the PCIe tree is left out if it has the same groups as the level above it, or if each
    group is a single GPU.
    """
    before: tuple[GpuMask, ...] = (topology.mask,)
    for level, name in _LEVELS:
        groups = blocks(topology, level)
        if groups != before and len(groups) < len(topology.gpus):
            yield name, groups
            before = groups


def _format_group(gpus: GpuMask) -> str:
    return "{" + ",".join(map(str, indices_of(gpus))) + "}"
