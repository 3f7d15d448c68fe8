"""Options of the command."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a benchmark.

    Attributes:
        quick: so small that it only proves that the benchmark runs.
        plot: where to draw decision times; None for nowhere.
        seed: of the simulated fleets.
        pictures: folder for pictures of the page; None for nowhere.
    """

    quick: bool = False
    plot: Path | None = None
    seed: int = 1
    pictures: Path | None = None
