"""Parse the matrix that ``nvidia-smi topo -m`` prints.

The format depends on the driver. Headers can be underlined with escape codes. Tabs or spaces
separate the columns. NICs have their own names or NIC0, NIC1, ... Older drivers print no NUMA
column and SOC instead of SYS. :mod:`gputopo_topologies.recorded` derives links from the cells.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import MappingProxyType
from typing import Final

from gputopo.topology.model import MAX_INDEX, Ancestor, TopologyError

Cell = Ancestor | int
"""PCIe ancestor of two devices, or the number of their NVLinks."""

_ESCAPES: Final = re.compile(r"\x1b?\[[\d;]*m")
_GPU: Final = re.compile(r"GPU([0-9]{1,3})")
_TITLES: Final = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")
_NVLINKS: Final = re.compile(r"NV([1-9][0-9]?)")
_LEVELS: Final[Mapping[str, Ancestor]] = MappingProxyType(
    {
        "PSB": Ancestor.INTERNAL,
        "PIX": Ancestor.PIX,
        "PXB": Ancestor.PXB,
        "PHB": Ancestor.PHB,
        "NODE": Ancestor.NODE,
        "SYS": Ancestor.SYS,
        "SOC": Ancestor.SYS,
    }
)
_SELF: Final = "X"
_WORD: Final = re.compile(r"\S+")
_NUMA_NODE: Final = re.compile(r"[0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class TopoMatrix:
    """The parsed matrix; each GPU has a cell with each other device.

    Attributes:
        gpus: name of each GPU, by its index, ascending.
        devices: names of all columns, NICs included.
        cells: cell of each pair of devices, equal in both orders; two NICs may have no cell.
        cpu_affinity: CPUs near each GPU, as printed; empty if none are printed.
        numa_affinity: NUMA node near each GPU; None if none or several are printed.
    """

    gpus: Mapping[int, str]
    devices: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    cpu_affinity: Mapping[str, str]
    numa_affinity: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class _Row:
    cells: Mapping[str, Cell | None]
    cpu_affinity: str
    numa_affinity: int | None


def has_matrix(text: str) -> bool:
    """Return whether a line of the text is the header of a matrix."""
    return any(_is_header(line) for line in _lines(text))


def parse_matrix(text: str) -> TopoMatrix:
    """Return the first matrix of a text (see :func:`has_matrix`). Other lines are ignored.

    Raises:
        TopologyError: if the matrix is incomplete or inconsistent, or a cell is unknown; the
            message names row, column and value.
    """
    lines = _lines(text)
    start = next(number for number, line in enumerate(lines) if _is_header(line))
    columns = _columns(lines[start])
    _require_once("column", columns)
    gpus = {int(found[1]): name for name in columns if (found := _GPU.fullmatch(name))}
    if max(gpus) > MAX_INDEX:
        raise TopologyError(f"column GPU{max(gpus)}: indices above {MAX_INDEX} are not supported")
    rows = _rows(lines[start + 1 :], columns, has_cpu_affinity="CPU Affinity" in lines[start])
    for name in gpus.values():
        if name not in rows:
            raise TopologyError(f"row {name} is missing")
    return TopoMatrix(
        gpus=MappingProxyType(dict(sorted(gpus.items()))),
        devices=tuple(columns),
        cells=MappingProxyType(_symmetric(rows)),
        cpu_affinity=MappingProxyType({name: row.cpu_affinity for name, row in rows.items()}),
        numa_affinity=MappingProxyType({name: row.numa_affinity for name, row in rows.items()}),
    )


def _lines(text: str) -> list[str]:
    return _ESCAPES.sub("", text).splitlines()


def _is_header(line: str) -> bool:
    first, *others = _columns(line) or [""]
    if not _GPU.fullmatch(first):
        return False
    if not others:
        return True
    return bool(_GPU.fullmatch(others[0])) or (
        bool(_TITLES.search(line)) and not _is_cell(others[0])
    )


def _columns(header: str) -> list[str]:
    """Return the device names in a header line. The space after a GPU's name may be missing."""
    return re.sub(r"(GPU[0-9]+)(?=[A-Za-z])", r"\1 ", _TITLES.split(header)[0]).split()


def _is_cell(word: str) -> bool:
    return word == _SELF or word in _LEVELS or _NVLINKS.fullmatch(word) is not None


def _require_once(what: str, names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TopologyError(f"{what} {twice} occurs more than once")


def _rows(
    lines: Sequence[str], columns: Sequence[str], *, has_cpu_affinity: bool
) -> dict[str, _Row]:
    rows: dict[str, _Row] = {}
    for line in takewhile(lambda line: not _is_header(line), lines):
        words = list(_WORD.finditer(line))
        if not _is_row(words, columns):
            continue
        name = words[0][0]
        if name not in columns:
            raise TopologyError(f"row {name}: the matrix has no column {name}")
        if name in rows:
            raise TopologyError(f"row {name} occurs more than once")
        cells = {
            column: _cell(name, column, word[0])
            for column, word in zip(columns, words[1:], strict=False)
        }
        if len(cells) < len(columns):
            raise TopologyError(f"row {name}: column {columns[len(cells)]} is missing")
        cpu, numa = _affinities(
            line[words[len(columns)].end() :], has_cpu_affinity=has_cpu_affinity
        )
        rows[name] = _Row(cells, cpu, numa)
    return rows


def _is_row(words: Sequence[re.Match[str]], columns: Sequence[str]) -> bool:
    """Return whether a line is a row of the matrix, not of the list of NICs that may follow."""
    if len(words) < 2:  # noqa: PLR2004 - a name and a cell
        return False
    name, first = words[0][0], words[1][0]
    return _GPU.fullmatch(name) is not None or (name in columns and _is_cell(first))


def _cell(row: str, column: str, word: str) -> Cell | None:
    """Return the value of a cell, or None for the X on the diagonal."""
    if (word == _SELF) != (row == column) or not _is_cell(word):
        allowed = _SELF if row == column else f"NV1, NV2, ..., {', '.join(_LEVELS)}"
        raise TopologyError(f"row {row}, column {column}: {word!r} is not one of {allowed}")
    if found := _NVLINKS.fullmatch(word):
        return int(found[1])
    return _LEVELS.get(word)


def _affinities(rest: str, *, has_cpu_affinity: bool) -> tuple[str, int | None]:
    """Return the CPU affinity (empty if unknown) and the NUMA node from the end of a row."""
    fields = [field.strip() for field in rest.split("\t")[1:]] if "\t" in rest else rest.split()
    cpu = fields.pop(0) if fields and has_cpu_affinity else ""
    numa = next((field for field in fields if field), "")
    return cpu, int(numa) if _NUMA_NODE.fullmatch(numa) else None


def _symmetric(rows: Mapping[str, _Row]) -> dict[tuple[str, str], Cell]:
    cells: dict[tuple[str, str], Cell] = {}
    for row, parsed in rows.items():
        for column, cell in parsed.cells.items():
            if cell is None:
                continue
            if cells.setdefault((column, row), cell) != cell:
                raise TopologyError(
                    f"row {row}, column {column} is {_format(cell)}, but row {column},"
                    f" column {row} is {_format(cells[column, row])}"
                )
            cells[row, column] = cell
    return cells


def _format(cell: Cell) -> str:
    return cell if isinstance(cell, Ancestor) else f"NV{cell}"
