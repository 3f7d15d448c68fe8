"""Memory of the tables of all sizes: bytes of the arrays, and growth of the process."""

from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from benchmarks.decisions import pattern_of
from benchmarks.options import Options
from benchmarks.table import show
from gputopo.catalogue import named
from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PlacementRequest
from gputopo.placement.place import place
from gputopo.topology.tables import TABLES

TOPOLOGIES: Final = ("dgx1-v100", "torus-2d-16", "cubemesh-16")
_MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Grown:
    """Growth of a process, in bytes.

    Attributes:
        arrays: numpy's count of the tables.
        resident: memory that stays.
        peak: memory at the worst moment of building.
    """

    arrays: int
    resident: int
    peak: int


def run(options: Options) -> None:
    """Build the tables of all sizes, each time in a process of its own, and print their memory."""
    topologies = TOPOLOGIES[:1] if options.quick else TOPOLOGIES
    single = [PatternKind.RING_TREE] if options.quick else PatternKind
    tasks = [(name, [kind]) for name in topologies for kind in single]
    tasks += [(name, list(PatternKind)) for name in topologies]
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        found = pool.starmap(grown, tasks, chunksize=1)
    rows = [
        [
            f"{name} {kinds[0] if len(kinds) == 1 else 'all patterns'}",
            *(f"{size / _MB:,.1f}" for size in (grew.arrays, grew.resident, grew.peak)),
        ]
        for (name, kinds), grew in zip(tasks, found, strict=True)
    ]
    title = f"Memory of the tables of all sizes, of which {TABLES.maxsize / _MB:,.0f} MB are kept"
    show(title, ["", "arrays MB", "process MB", "at the worst MB"], rows)


def grown(name: str, kinds: Sequence[PatternKind]) -> Grown:
    """Build the tables of every size, and return by how much this process grew."""
    topology = named(name)
    idle = topology.mask
    one = PlacementRequest(pattern_of(PatternKind.RING, 1), sensitive=False)
    place(named("summit"), named("summit").mask, one)
    TABLES.clear()
    resident, peak = _resident(), _peak()
    for kind in kinds:
        for size in range(2, len(topology.gpus) + 1):
            request = PlacementRequest(pattern_of(kind, size), sensitive=True)
            place(topology, idle, request)
    return Grown(int(TABLES.currsize), _resident() - resident, _peak() - peak)


def _resident() -> int:
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    """Return a line of this process's status, in bytes; it counts from the start of the program."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
