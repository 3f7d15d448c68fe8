"""Parse a CSV table of measured bandwidths into samples for a fit of equation 2."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.link_mix import DGX1_V100, LinkClass, LinkClasses, link_mixes
from gputopo.errors import InvalidInputError
from gputopo.patterns.embedding import MAX_NODE_GPUS, embeddings
from gputopo.patterns.model import MAX_GPUS_PER_POD, ring
from gputopo.topology.model import GpuIndex, LinkKind, NodeTopology, mask_of

BY_GPUS: Final = ("gpus", "bandwidth_gbps")
BY_LINKS: Final = ("double", "single", "pcie", "bandwidth_gbps")

_MIN_GB_PER_S: Final = 1e-3
_MAX_GB_PER_S: Final = 1e6
_MAX_SHOWN: Final = 80


class SampleError(InvalidInputError):
    """Samples are invalid; the message names the line, the column and the value."""


@dataclass(frozen=True, slots=True)
class BandwidthSample:
    """One measured bandwidth of a ring.

    Attributes:
        mix: how many double NVLinks, single NVLinks and PCIe links the ring uses. A ring has as
            many links as GPUs; the one link of a ring of two GPUs counts twice.
        gb_per_s: measured bandwidth.
    """

    mix: tuple[int, int, int]
    gb_per_s: float


@dataclass(frozen=True, slots=True)
class BandwidthSamples:
    """One or more measurements on machines of one type.

    Attributes:
        classes: the link classes of equation 2 for this type of machine.
    """

    samples: tuple[BandwidthSample, ...]
    classes: LinkClasses


def parse_samples(text: str, topology: NodeTopology | None = None) -> BandwidthSamples:
    """Return the samples of a CSV file.

    The first line has columns: ``gpus,bandwidth_gbps`` or ``double,single,pcie,bandwidth_gbps``.
    The column ``gpus`` has the GPUs of the measured ring as ``0-3-4`` or ``"0,3,4"``. The function
    assumes that the ring had the rank order with the highest aggregate bandwidth. ``double``,
    ``single``, ``pcie`` are numbers of links. Empty lines and ``#`` comment lines are skipped.

    ``topology`` describes the measured machine. The column ``gpus`` requires it. If it is None, the
    link classes are those of a DGX-1 V100.

    Raises:
        SampleError: if the text has another format, or a value is wrong.
    """
    lines = _lines(text)
    number, header = next(lines, (1, []))
    names = [name.strip() for name in header]
    if sorted(names) not in (sorted(BY_GPUS), sorted(BY_LINKS)):
        raise SampleError(
            f"line {number}: columns are {','.join(names)[:_MAX_SHOWN] or 'missing'};"
            f" expected {','.join(BY_GPUS)} or {','.join(BY_LINKS)}"
        )
    classes = DGX1_V100 if topology is None else _classes(topology)
    mix_of = _counted
    if "gpus" in names:
        if topology is None:
            raise SampleError(f"line {number}: gpus: requires the topology of the machine")
        mix_of = _RingMixes(topology, classes).mix_of
    samples = tuple(BandwidthSample(mix_of(row), row.gb_per_s()) for row in _rows(lines, names))
    if not samples:
        raise SampleError(f"line {number}: there are no samples below the columns")
    return BandwidthSamples(samples, classes)


@dataclass(frozen=True, slots=True)
class _SampleRow:
    line: int
    values: Mapping[str, str]

    def error(self, column: str, problem: str) -> SampleError:
        shown = repr(self.values[column])[:_MAX_SHOWN]
        return SampleError(f"line {self.line}: {column}: {shown} {problem}")

    def gb_per_s(self) -> float:
        try:
            value = float(self.values["bandwidth_gbps"])
        except ValueError:
            raise self.error("bandwidth_gbps", "is not a number") from None
        if not _MIN_GB_PER_S <= value <= _MAX_GB_PER_S:
            raise self.error(
                "bandwidth_gbps", f"is not in {_MIN_GB_PER_S:g}..{_MAX_GB_PER_S:g} GB/s"
            )
        return value

    def count(self, column: str) -> int:
        if not re.fullmatch(r"\d{1,2}", self.values[column], re.ASCII):
            raise self.error(column, "is not a number of links; use a whole number such as 2")
        return int(self.values[column])

    def gpus(self) -> tuple[GpuIndex, ...]:
        text = self.values["gpus"]
        if not re.fullmatch(r"\d{1,2}(([,-]) ?\d{1,2})*", text, re.ASCII):
            raise self.error("gpus", "is not a list of GPUs such as 0-3-4")
        return tuple(GpuIndex(int(number)) for number in re.split("[,-]", text))


class _RingMixes:
    """Computes link mixes of GPU sets. The ring of a set is the one with the most bandwidth."""

    def __init__(self, topology: NodeTopology, classes: LinkClasses) -> None:
        if len(topology.gpus) > MAX_NODE_GPUS:
            raise SampleError(f"topology: has {len(topology.gpus)} GPUs; at most {MAX_NODE_GPUS}")
        self._topology = topology
        self._classes = classes
        self._mixes: dict[int, tuple[NDArray[np.uint64], NDArray[np.int64]]] = {}

    def mix_of(self, row: _SampleRow) -> tuple[int, int, int]:
        gpus = row.gpus()
        if unknown := sorted(set(gpus).difference(self._topology.uuid_of)):
            raise row.error("gpus", f"has GPU {unknown[0]}, which is not in the topology")
        if len(set(gpus)) < len(gpus):
            raise row.error("gpus", "has a GPU twice")
        if len(gpus) == 1:
            raise row.error("gpus", "has one GPU, which has no link")
        sets, mixes = self._of_size(len(gpus))
        x, y, z = mixes[np.flatnonzero(sets == mask_of(gpus))[0]].tolist()
        return x, y, z

    def _of_size(self, size: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        if size not in self._mixes:
            pattern = ring(size)
            table = embeddings(self._topology, pattern)
            mixes = link_mixes(self._topology, pattern, table, self._classes)
            self._mixes[size] = table.sets, mixes
        return self._mixes[size]


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                yield number, next(csv.reader([line], skipinitialspace=True))
            except csv.Error as error:
                raise SampleError(f"line {number}: {error}") from None


def _rows(lines: Iterator[tuple[int, list[str]]], names: list[str]) -> Iterator[_SampleRow]:
    for number, values in lines:
        if len(values) != len(names):
            raise SampleError(f"line {number}: {len(values)} values for {len(names)} columns")
        yield _SampleRow(number, dict(zip(names, map(str.strip, values), strict=True)))


def _counted(row: _SampleRow) -> tuple[int, int, int]:
    x, y, z = (row.count(column) for column in BY_LINKS[:3])
    if not 2 <= x + y + z <= MAX_GPUS_PER_POD:  # noqa: PLR2004 - two GPUs are the smallest ring
        raise SampleError(
            f"line {row.line}: double, single, pcie: the sum is {x + y + z}; a ring has as many"
            f" links as GPUs, so the sum must be in 2..{MAX_GPUS_PER_POD}"
        )
    if x + y + z == 2 and 1 in {x, y, z}:  # noqa: PLR2004 - as above
        raise SampleError(
            f"line {row.line}: double, single, pcie: two columns are 1; two GPUs have one link,"
            " which counts twice, so set its column to 2 and the others to 0"
        )
    return x, y, z


def _classes(topology: NodeTopology) -> LinkClasses:
    """Return a node's link classes. The faster NVLinks are the double NVLinks of equation 2."""
    found = {LinkClass.from_link(link) for link in topology.links}
    slots = sorted((one for one in found if one.kind is LinkKind.PCIE), key=str)
    nvlinks = sorted(found.difference(slots), key=lambda one: -one.bandwidth_mb_per_s)
    if len(slots) > 1 or len(nvlinks) > 2:  # noqa: PLR2004 - x and y
        words = ", ".join(map(str, [*nvlinks, *slots]))
        raise SampleError(
            f"topology: links are {words}; equation 2 supports two classes of NVLink and one of"
            " PCIe"
        )
    pcie = slots[0] if slots else None
    if len(nvlinks) == 1 and nvlinks[0].count == 1:
        return LinkClasses(None, nvlinks[0], pcie)
    double, single = [*nvlinks, None, None][:2]
    return LinkClasses(double, single, pcie)
