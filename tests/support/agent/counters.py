"""Hardware counters of the simulated NVML, at times that the test sets."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pynvml

from fakenvml.render import render
from gputopo.catalogue import named
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind
from gputopo_deviceplugin.counters.gpu_reader import GpuReading
from gputopo_deviceplugin.counters.poller import readable
from gputopo_deviceplugin.counters.session import CounterSession, ExporterState
from gputopo_deviceplugin.gpus.discover import discover
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.link_ends import link_peers
from gputopo_deviceplugin.gpus.nvml import Nvml

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
    """Let an open library read the files, which it does only during calls about counters."""
    for index in range(16):
        try:
            pynvml.nvmlDeviceGetUtilizationRates(pynvml.nvmlDeviceGetHandleByIndex(index))
        except pynvml.NVMLError:
            continue  # a fault of this GPU, or no open library
        return


def close_sessions() -> None:
    """Close sessions of NVML that agents of other tests left open because a call hung."""
    with suppress(pynvml.NVMLError_Uninitialized):
        while True:
            pynvml.nvmlShutdown()


class CounterNode:
    """A simulated node whose counters the agent's code reads, as fast as the test wants."""

    def __init__(self, folder: Path, library_dir: Path, server: str = "dgx1-v100") -> None:
        close_sessions()
        self.counters = SimulatedCounters(folder, server)
        self.counters.use()
        self.exporter: ExporterState = CounterError(FaultKind.UNSUPPORTED, "no exporter")
        self.session = CounterSession(
            library_dir,
            clock_us=lambda: self.counters.at_us,
            monotonic=lambda: self.counters.at_us / SECOND_US,
        )
        self._library_dir = library_dir
        self.discover()

    def discover(self) -> None:
        """Read the topology."""
        nvml = Nvml(self._library_dir)
        try:
            snapshot = nvml.read_gpus()
        finally:
            nvml.close()
        topology = discover(snapshot, (), None)
        health: dict[GpuUuid, str | None] = dict.fromkeys(gpu.uuid for gpu in topology.gpus)
        peers = link_peers(topology, snapshot)
        self.hardware = NodeHardware(topology, health, None, peers)

    @property
    def uuids(self) -> list[GpuUuid]:
        """The GPUs by index."""
        return [*self.hardware.gpus]

    def read(self, seconds: float = 1.0) -> list[GpuReading]:
        """Let time pass, and read all GPUs; return the readings by index."""
        self.counters.wait(seconds)
        return [*self.read_now().values()]

    def read_now(self) -> dict[GpuUuid, GpuReading]:
        """Read all GPUs."""
        return self.session.read(readable(self.hardware), self.exporter)

    def close(self) -> None:
        """Close the session."""
        self.session.close()
