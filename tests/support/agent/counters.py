"""Hardware counters of the simulated NVML, at times that the test sets."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pynvml

from fakenvml.render import render
from gputopo_topologies.catalogue import named

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US
"""First time of the simulated clock; a multiple of a second."""


class SimulatedCounters:
    """The files of the simulated NVML in one folder, and its clock.

    Attributes:
        topology: the GPUs of the node.
        at_us: the time of the counters, in microseconds since 1970.
    """

    def __init__(self, folder: Path, server: str = "dgx1-v100", node: str = "n1") -> None:
        self.topology = named(server, node=node)
        self.folder = folder
        self.at_us = START_US
        self._conf = folder / "topology.conf"
        self._rates: tuple[str, ...] = ()
        self.write_conf()
        self.set_rates()

    @property
    def uuids(self) -> list[str]:
        """The GPUs by index."""
        return [gpu.uuid for gpu in self.topology.gpus]

    def use(self) -> None:
        """Let the library read these files."""
        os.environ["FAKE_NVML_TOPOLOGY"] = str(self._conf)

    def write_conf(self, *lines: str) -> None:
        """Write topology.conf with these lines at its end, for example faults."""
        replace(self._conf, [render(self.topology), *lines])

    def set_rates(self, *lines: str) -> None:
        """Set all rates from now on."""
        _look_at_files()
        self._rates = lines
        replace(self.folder / "counters.conf", [f"clock {self.at_us}", *lines])

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.at_us += round(seconds * SECOND_US)
        self.set_rates(*self._rates)


def replace(path: Path, lines: Iterable[str]) -> None:
    """Replace a file, so that a reader sees the old or the new one."""
    new = path.with_name(f".{path.name}.new")
    new.write_text("\n".join(lines) + "\n")
    new.rename(path)


def _look_at_files() -> None:
    """Let an open library read the files, which it does only during calls."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlDeviceGetUtilizationRates(pynvml.nvmlDeviceGetHandleByIndex(0))
