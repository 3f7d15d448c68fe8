"""Time to start the command line, as ratio to an empty Python program."""

import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Final

from benchmarks.measure import Timing, milliseconds, timed
from benchmarks.options import Options
from benchmarks.table import show

_EMPTY: Final = ("-c", "pass")
_PROGRAM: Final = str(Path(sys.executable).with_name("gputopo"))
_COMMANDS: Final = (
    ("--help",),
    ("topology", "show", "dgx1-v100"),
    ("place", "--topology", "dgx1-v100", "--gpus", "3"),
)


def run(options: Options) -> None:
    """Start commands as new processes, and print their time and its ratio to ``python -c pass``."""
    times = 1 if options.quick else 20
    empty = _started(_EMPTY, times)
    rows = [_row("python -c pass", empty, empty)]
    for command in _COMMANDS[: 1 if options.quick else None]:
        name = " ".join(("gputopo", *command))
        rows.append(_row(name, _started((_PROGRAM, *command), times), empty))
    show("Start of the command line", ["", "ms", "CPU ms", "times python -c pass"], rows)


def _started(arguments: tuple[str, ...], times: int) -> Timing:
    """Return how long a new Python process takes to the end of its work."""

    def start() -> None:
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)

    return timed(start, times=times, cpu_clock=_cpu_seconds_of_children)


def _cpu_seconds_of_children() -> float:
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _row(name: str, timing: Timing, empty: Timing) -> list[str]:
    ratio = f"{timing.cpu / empty.cpu:,.1f}"
    return [name, milliseconds(timing.median), milliseconds(timing.cpu), ratio]
