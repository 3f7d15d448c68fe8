"""The topology of before, for an agent that starts without the API server."""

import logging
from pathlib import Path

from pydantic import ValidationError

from gputopo.api.topology import from_spec, to_spec
from gputopo.api.v1alpha1 import GPUTopologySpec
from gputopo.runtime.log import fields
from gputopo.topology.model import NodeTopology, TopologyError
from gputopo_deviceplugin.statefile import StateFile

_log = logging.getLogger(__name__)


class TopologyFile:
    """The topology that this node's agent read last.

    A GPU that does not answer NVML when the agent starts must not vanish from the topology.
    """

    def __init__(self, state_dir: Path) -> None:
        """Keep it in a file in ``state_dir``."""
        self._file = StateFile(state_dir / "topology.json")
        self._written: NodeTopology | None = None

    def read(self) -> NodeTopology | None:
        """Return it, None where there is none."""
        document = self._file.read()
        if document is None:
            return None
        try:
            return from_spec(GPUTopologySpec.model_validate(document))
        except (ValidationError, TopologyError) as error:
            _log.warning("topology in the state file ignored %s", fields(reason=error))
            return None

    def write(self, topology: NodeTopology) -> None:
        """Replace it."""
        if topology == self._written:
            return
        self._written = topology
        try:
            self._file.write(to_spec(topology).to_json())
        except OSError as error:
            _log.error("topology not written to the state file %s", fields(reason=error))
