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
    """

    quick: bool = False
    plot: Path | None = None
    seed: int = 1
