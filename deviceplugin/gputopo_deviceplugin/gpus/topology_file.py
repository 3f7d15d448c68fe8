"""Stores the node topology in a file, for an agent that starts without the API server."""

import logging
from pathlib import Path

from gputopo.api.topology import parse_spec, to_spec
from gputopo.runtime.log import fields
from gputopo.topology.model import NodeTopology
from gputopo_deviceplugin.statefile import StateFile

_log = logging.getLogger(__name__)


class TopologyFile:
    """The state file with the last topology that the agent has read.

    If NVML cannot read a GPU at the next start, the agent takes the GPU from this file.
    """

    def __init__(self, state_dir: Path) -> None:
        self._file = StateFile(state_dir / "topology.json")
        self._written: NodeTopology | None = None

    def load(self) -> NodeTopology | None:
        """Return the topology, or None if there is no valid file."""
        return self._file.load(parse_spec)

    def save(self, topology: NodeTopology) -> None:
        """Replace the stored topology. Log a failed write once for each topology."""
        if topology == self._written:
            return
        self._written = topology
        try:
            self._file.save(to_spec(topology).to_json())
        except OSError as error:
            _log.error("topology not written to the state file %s", fields(reason=error))
