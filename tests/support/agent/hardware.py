"""A HardwareWatch without an event loop, and the clocks of its XID marks."""

from dataclasses import dataclass
from pathlib import Path

from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.nvml import NvmlError
from gputopo_deviceplugin.gpus.session import NvmlSession
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.gpus.watch import HardwareWatch
from gputopo_deviceplugin.gpus.xid_mark_store import XidMarkStore
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_deviceplugin.statefile import StateFile
from gputopo_kube.probes import Pulse


@dataclass(slots=True)
class Clocks:
    """The clocks of a node that is up for 1,000 s; the wall clock is Unix time."""

    monotonic_seconds: float = 1_000.0
    wall_seconds: float = 1_700_000_000.0

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.monotonic_seconds += seconds
        self.wall_seconds += seconds


class NodeWithoutAnnotations:
    """A Node object without annotations."""

    def annotation(self, name: str) -> str | None:  # noqa: ARG002
        return None


@dataclass(slots=True)
class Watched:
    """A HardwareWatch with its state and clocks."""

    session: NvmlSession
    watch: HardwareWatch
    marks: XidMarkStore

    def look(self) -> NodeHardware:
        """Read NVML once and return what is published."""
        try:
            topology, snapshot = self.session.read_topology(self.watch._known)
        except NvmlError as error:
            hardware = self.watch._unavailable(str(error))
        else:
            hardware = self.watch._evaluate(topology, snapshot)
        self.watch._set(hardware)
        return hardware


def watched(
    library_dir: Path, state_dir: Path, clocks: Clocks | None = None, *, quiet_seconds: float = 300
) -> Watched:
    """Build the parts as the agent does."""
    clocks = clocks or Clocks()
    settings = AgentSettings(node="n1", library_dir=library_dir, xid_quiet_seconds=quiet_seconds)
    session = NvmlSession(library_dir, ())
    marks = XidMarkStore(
        StateFile(state_dir / "xids.json"),
        quiet_seconds=quiet_seconds,
        monotonic=lambda: clocks.monotonic_seconds,
        wall=lambda: clocks.wall_seconds,
    )
    watch = HardwareWatch(GpuState(), session, marks, settings, NodeWithoutAnnotations(), Pulse())
    return Watched(session, watch, marks)
