"""The link matrix of a node as lines of the terminal, after ``nvidia-smi topo -m``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from gputopo.topology.hierarchy import blocks
from gputopo.topology.model import Ancestor, GpuIndex, GpuMask, LinkKind, NodeTopology, indices_of
from gputopo_cli.shared.output import figure
from gputopo_cli.topology.links import Sort, legend, sort_of, sorts

_NVLINK_STYLES: Final = ("bold green", "green", "cyan", "blue")
_FAR: Final = (Ancestor.NODE, Ancestor.SYS)
_LEVELS: Final = (
    (Ancestor.NODE, "sockets"),
    (Ancestor.PHB, "host bridges"),
    (Ancestor.PXB, "switch trees"),
    (Ancestor.PIX, "switches"),
)


def matrix(topology: NodeTopology, states: Mapping[GpuIndex, str], width: int) -> Iterator[Text]:
    """Return the lines of the matrix, a legend and the node's parts.

    Args:
        topology: the node.
        states: a word on a GPU, such as ``busy``, where there is one.
        width: columns of the terminal; the matrix is cut into several beneath each other
            rather than any cell.
    """
    styles = _styles(topology)
    rows = [_row(topology, gpu.index, states, styles) for gpu in topology.gpus]
    columns = [Text(), *(Text(f"GPU{gpu.index}") for gpu in topology.gpus), Text("NUMA")]
    if states:
        columns.append(Text("state"))
    yield from _cut([columns, *rows], width)
    yield Text()
    for sort in sorts(topology):
        yield Text(legend(sort), styles[sort])
    for name, parts in _parts(topology):
        yield Text(f"{name}: {' '.join(map(_braces, parts))}")


def _row(
    topology: NodeTopology,
    index: GpuIndex,
    states: Mapping[GpuIndex, str],
    styles: Mapping[Sort, str],
) -> list[Text]:
    cells = [Text(f"GPU{index}", "bold" if index in states else "")]
    for gpu in topology.gpus:
        if gpu.index == index:
            cells.append(Text("X", "dim"))
            continue
        sort = sort_of(topology.link_of[index, gpu.index])
        cells.append(Text(f"{sort.label} {figure(sort.mb_per_s)}", styles[sort]))
    numa = next(gpu.numa_node for gpu in topology.gpus if gpu.index == index)
    cells.append(Text("-" if numa is None else str(numa)))
    return [*cells, Text(states.get(index, ""), "bold magenta")] if states else cells


def _cut(rows: Sequence[Sequence[Text]], width: int) -> Iterator[Text]:
    """Return the rows as lines, the columns dealt out to as many tables as are needed."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    here: list[int] = []
    for column in range(1, len(widths)):
        if here and _needed(widths, [*here, column]) > width:
            yield from _lines(rows, widths, here)
            yield Text()
            here = []
        here.append(column)
    yield from _lines(rows, widths, here)


def _needed(widths: Sequence[int], columns: Sequence[int]) -> int:
    return widths[0] + sum(2 + widths[column] for column in columns)


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


def _styles(topology: NodeTopology) -> dict[Sort, str]:
    styles: dict[Sort, str] = {}
    nvlinks = 0
    for sort in sorts(topology):
        if sort.kind is LinkKind.PCIE:
            styles[sort] = "dim" if sort.label in _FAR else ""
        else:
            styles[sort] = _NVLINK_STYLES[min(nvlinks, len(_NVLINK_STYLES) - 1)]
            nvlinks += 1
    return styles


def _parts(topology: NodeTopology) -> Iterator[tuple[str, tuple[GpuMask, ...]]]:
    """Return the levels that tell the node's GPUs apart, the outermost first."""
    before: tuple[GpuMask, ...] = (topology.mask,)
    for level, name in _LEVELS:
        parts = blocks(topology, level)
        if parts != before and len(parts) < len(topology.gpus):
            yield name, parts
            before = parts


def _braces(gpus: GpuMask) -> str:
    return "{" + ",".join(map(str, indices_of(gpus))) + "}"
