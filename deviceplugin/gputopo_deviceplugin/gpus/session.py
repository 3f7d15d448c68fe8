"""One session with NVML, kept open: readings, and XID events. Every method blocks."""

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from gputopo.api.topology import to_spec
from gputopo.runtime.log import fields
from gputopo.runtime.messages import first_error
from gputopo.topology.model import NodeTopology, NumaNode, TopologyError
from gputopo_deviceplugin.gpus.discover import discover
from gputopo_deviceplugin.gpus.nvml import Nvml, NvmlError, XidListener
from gputopo_deviceplugin.gpus.readings import NvmlSnapshot, XidEvent

_LISTEN_MILLISECONDS: Final = 250

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Look:
    """What NVML reports now, and the topology that this makes."""

    topology: NodeTopology
    readings: NvmlSnapshot


@dataclass(frozen=True, slots=True)
class Fault:
    """Why NVML as a whole cannot be used."""

    reason: str


class NvmlSession:
    """Opens NVML when needed. At most one call at a time, from any thread."""

    def __init__(self, library_dir: Path, numa_nodes: tuple[NumaNode, ...]) -> None:
        """Use the driver's library in ``library_dir``."""
        self._library_dir = library_dir
        self._numa_nodes = numa_nodes
        self._nvml: Nvml | None = None
        self._events: XidListener | None = None
        self._answering: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether NVML is initialised."""
        return self._nvml is not None

    @property
    def listens(self) -> bool:
        """Whether XID events can be waited for."""
        return self._events is not None

    def look(self, known: NodeTopology | None) -> Look | Fault:
        """Read all GPUs; after a fault the session is closed."""
        try:
            if self._nvml is None:
                self._nvml = Nvml(self._library_dir)
            readings = self._nvml.read()
            self._listen_to(readings)
            return Look(_publishable(discover(readings, self._numa_nodes, known)), readings)
        except (NvmlError, TopologyError) as error:
            self.close()
            return Fault(str(error))

    def listen(self) -> XidEvent | None:
        """Return the next XID, None where there is none within a quarter of a second."""
        if self._events is None:
            return None
        try:
            return self._events.wait(_LISTEN_MILLISECONDS)
        except NvmlError as error:
            _log.warning("XIDs not heard, registering again %s", fields(reason=error))
            self._answering = frozenset()
            time.sleep(_LISTEN_MILLISECONDS / 1000)
            return None

    def close(self) -> None:
        """End the session, if there is one."""
        if self._nvml is None:
            return
        try:
            if self._events is not None:
                self._events.close()
            self._nvml.close()
        except NvmlError as error:
            _log.debug("NVML not closed %s", fields(reason=error))
        self._nvml = self._events = None

    def _listen_to(self, readings: NvmlSnapshot) -> None:
        """Register for XIDs again when other GPUs answer than before."""
        answering = frozenset(gpu.uuid for gpu in readings.gpus)
        if self._events is not None and answering == self._answering:
            return
        if self._events is not None:
            self._events.close()
            self._events = None
        self._events = XidListener()
        self._answering = answering


def _publishable(topology: NodeTopology) -> NodeTopology:
    """Return the topology itself.

    Raises:
        TopologyError: where the API has no words for what NVML says.
    """
    try:
        to_spec(topology)
    except ValidationError as error:
        raise TopologyError(f"NVML: {first_error(error)}") from None
    return topology
