"""Measured bandwidths, as a user's table gives them, as samples for a regression."""

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

_LEAST_GB_PER_S: Final = 1e-3
_MOST_GB_PER_S: Final = 1e6
_MOST_SHOWN: Final = 80


class SampleError(InvalidInputError):
    """Samples that cannot be used; the message names the line, the column and the value."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of a ring.

    Attributes:
        mix: how many of the ring's links are of class x, y and z of equation 2. There are as
            many links as GPUs: two GPUs use theirs once each way.
        gb_per_s: what was measured.
    """

    mix: tuple[int, int, int]
    gb_per_s: float


@dataclass(frozen=True, slots=True)
class Samples:
    """Measurements on one kind of machine; at least one.

    Attributes:
        classes: what x, y and z stand for there.
    """

    samples: tuple[Sample, ...]
    classes: LinkClasses


def read_samples(text: str, topology: NodeTopology | None = None) -> Samples:
    """Return the samples of a CSV file.

    Its first line names the columns: ``gpus,bandwidth_gbps``, where ``gpus`` is ``0-3-4``
    or ``"0,3,4"`` and the best-aggregate ring over them counts, or
    ``double,single,pcie,bandwidth_gbps`` with counts of links. Empty lines and those that
    start with ``#`` are skipped.

    Args:
        text: the file.
        topology: where it was measured; needed for ``gpus``. Without one, counts are of a
            DGX-1 V100's links.

    Raises:
        SampleError: on anything else.
    """
    lines = _lines(text)
    number, header = next(lines, (1, []))
    names = [name.strip() for name in header]
    if sorted(names) not in (sorted(BY_GPUS), sorted(BY_LINKS)):
        raise SampleError(
            f"line {number}: columns are {','.join(names)[:_MOST_SHOWN] or 'missing'},"
            f" not {','.join(BY_GPUS)} or {','.join(BY_LINKS)}"
        )
    classes = DGX1_V100 if topology is None else _classes(topology)
    mix_of = _counted
    if "gpus" in names:
        if topology is None:
            raise SampleError(f"line {number}: gpus: needs the topology that it was measured on")
        mix_of = _Rings(topology, classes).mix_of
    samples = tuple(Sample(mix_of(row), row.gb_per_s()) for row in _rows(lines, names))
    if not samples:
        raise SampleError(f"line {number}: no samples below the columns")
    return Samples(samples, classes)


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    values: Mapping[str, str]

    def error(self, column: str, problem: str) -> SampleError:
        shown = repr(self.values[column])[:_MOST_SHOWN]
        return SampleError(f"line {self.line}: {column}: {shown} {problem}")

    def gb_per_s(self) -> float:
        try:
            value = float(self.values["bandwidth_gbps"])
        except ValueError:
            raise self.error("bandwidth_gbps", "is not a number") from None
        if not _LEAST_GB_PER_S <= value <= _MOST_GB_PER_S:
            raise self.error(
                "bandwidth_gbps", f"is not in {_LEAST_GB_PER_S:g}..{_MOST_GB_PER_S:g} GB/s"
            )
        return value

    def count(self, column: str) -> int:
        if not re.fullmatch(r"\d{1,2}", self.values[column], re.ASCII):
            raise self.error(column, "is not a count of links")
        return int(self.values[column])

    def gpus(self) -> tuple[GpuIndex, ...]:
        text = self.values["gpus"]
        if not re.fullmatch(r"\d{1,2}(([,-]) ?\d{1,2})*", text, re.ASCII):
            raise self.error("gpus", "is not a list of GPUs such as 0-3-4")
        return tuple(GpuIndex(int(number)) for number in re.split("[,-]", text))


class _Rings:
    """The links beneath the best-aggregate rings of a machine."""

    def __init__(self, topology: NodeTopology, classes: LinkClasses) -> None:
        if len(topology.gpus) > MAX_NODE_GPUS:
            raise SampleError(f"topology: {len(topology.gpus)} GPUs, at most {MAX_NODE_GPUS}")
        self._topology = topology
        self._classes = classes
        self._mixes: dict[int, tuple[NDArray[np.uint64], NDArray[np.int64]]] = {}

    def mix_of(self, row: _Row) -> tuple[int, int, int]:
        gpus = row.gpus()
        if strange := sorted(set(gpus).difference(self._topology.uuid_of)):
            raise row.error("gpus", f"names GPU {strange[0]}, which the topology does not have")
        if len(set(gpus)) < len(gpus):
            raise row.error("gpus", "names a GPU twice")
        if len(gpus) == 1:
            raise row.error("gpus", "is one GPU, which has no link")
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


def _rows(lines: Iterator[tuple[int, list[str]]], names: list[str]) -> Iterator[_Row]:
    for number, values in lines:
        if len(values) != len(names):
            raise SampleError(f"line {number}: {len(values)} values for {len(names)} columns")
        yield _Row(number, dict(zip(names, map(str.strip, values), strict=True)))


def _counted(row: _Row) -> tuple[int, int, int]:
    x, y, z = (row.count(column) for column in BY_LINKS[:3])
    if not 2 <= x + y + z <= MAX_GPUS_PER_POD:  # noqa: PLR2004 - two GPUs are the smallest ring
        raise SampleError(
            f"line {row.line}: double, single, pcie: {x + y + z} links are no ring of 2 to"
            f" {MAX_GPUS_PER_POD} GPUs (it has as many links as GPUs; two use theirs twice)"
        )
    if x + y + z == 2 and 1 in {x, y, z}:  # noqa: PLR2004 - likewise
        raise SampleError(
            f"line {row.line}: double, single, pcie: two GPUs have one link, counted twice"
        )
    return x, y, z


def _classes(topology: NodeTopology) -> LinkClasses:
    """Return what x, y and z stand for on a machine: x is the faster NVLink, z PCIe."""
    found = {LinkClass.of(link) for link in topology.links}
    slots = sorted((one for one in found if one.kind is LinkKind.PCIE), key=str)
    nvlinks = sorted(found.difference(slots), key=lambda one: -one.bandwidth_mb_per_s)
    if len(slots) > 1 or len(nvlinks) > 2:  # noqa: PLR2004 - x and y
        words = ", ".join(map(str, [*nvlinks, *slots]))
        raise SampleError(
            f"topology: has links of {words}; equation 2 tells two sorts of NVLink and one of"
            " PCIe apart"
        )
    pcie = slots[0] if slots else None
    if len(nvlinks) == 1 and nvlinks[0].count == 1:
        return LinkClasses(None, nvlinks[0], pcie)
    double, single = [*nvlinks, None, None][:2]
    return LinkClasses(double, single, pcie)
