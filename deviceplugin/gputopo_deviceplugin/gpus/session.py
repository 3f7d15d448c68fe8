"""Reads the GPUs and waits for XID events in one NVML session. Every method blocks."""

import logging
import time
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from gputopo.api.topology import to_spec
from gputopo.runtime.log import fields
from gputopo.runtime.messages import first_error
from gputopo.topology.model import NodeTopology, NumaNode, TopologyError
from gputopo_deviceplugin.gpus.discover import discover
from gputopo_deviceplugin.gpus.nvml import Nvml, NvmlError, XidListener
from gputopo_deviceplugin.gpus.snapshot import NvmlSnapshot, XidEvent

_LISTEN_MILLISECONDS: Final = 250

_log = logging.getLogger(__name__)


class NvmlSession:
    """Opens NVML when needed, and keeps NVML open. Only one thread at a time may call a method."""

    def __init__(self, library_dir: Path, numa_nodes: tuple[NumaNode, ...]) -> None:
        self._library_dir = library_dir
        self._numa_nodes = numa_nodes
        self._nvml: Nvml | None = None
        self._listener: XidListener | None = None
        self._listened_gpus: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether NVML is initialised."""
        return self._nvml is not None

    @property
    def listens(self) -> bool:
        """Whether the session can wait for XID events."""
        return self._listener is not None

    def read_topology(self, known: NodeTopology | None) -> tuple[NodeTopology, NvmlSnapshot]:
        """Read all GPUs. Take the GPUs that NVML cannot read from ``known``.

        Raises:
            NvmlError: NVML is unavailable, or reports values that GPUTopology does not allow. In
                both cases the method has closed the session.
        """
        try:
            if self._nvml is None:
                self._nvml = Nvml(self._library_dir)
            snapshot = self._nvml.read_gpus()
            self._listen_to(snapshot)
            topology = discover(snapshot, self._numa_nodes, known)
            _check_publishable(topology)
        except TopologyError as error:
            self.close()
            raise NvmlError(str(error)) from error
        except NvmlError:
            self.close()
            raise
        return topology, snapshot

    def wait_for_xid(self) -> XidEvent | None:
        """Return the next XID, or None if there is none within a quarter of a second."""
        if self._listener is None:
            return None
        try:
            return self._listener.wait(_LISTEN_MILLISECONDS)
        except NvmlError as error:
            _log.warning("wait for XIDs failed, registering again: %s", fields(reason=error))
            self._listened_gpus = frozenset()
            time.sleep(_LISTEN_MILLISECONDS / 1000)
            return None

    def close(self) -> None:
        """End the NVML session, if there is one."""
        self._end_listener()
        nvml, self._nvml = self._nvml, None
        _close(nvml)

    def _end_listener(self) -> None:
        """End the registration for XID events."""
        listener, self._listener = self._listener, None
        _close(listener)

    def _listen_to(self, snapshot: NvmlSnapshot) -> None:
        """Register with NVML for XID events again if the set of readable GPUs has changed."""
        readable = frozenset(gpu.uuid for gpu in snapshot.gpus)
        if self._listener is not None and readable == self._listened_gpus:
            return
        self._end_listener()
        self._listener = XidListener()
        self._listened_gpus = readable


def _close(part: Nvml | XidListener | None) -> None:
    """Close a part of NVML. An error does not stop the end of the session."""
    if part is not None:
        try:
            part.close()
        except NvmlError as error:
            _log.debug("NVML not closed %s", fields(part=type(part).__name__, reason=error))


def _check_publishable(topology: NodeTopology) -> None:
    """Raise TopologyError if NVML reports a value that GPUTopology does not allow."""
    try:
        to_spec(topology)
    except ValidationError as error:
        raise TopologyError(f"NVML: {first_error(error)}") from None
