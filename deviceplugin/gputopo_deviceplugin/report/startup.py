"""Loads the last known topology when the agent starts: from the API server or the state file."""

import asyncio
import logging
from typing import Final

from gputopo.topology.model import NodeTopology
from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.node_watch import NodeWatch
from gputopo_deviceplugin.gpus.topology_file import TopologyFile
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.report.publisher import TopologyPublisher
from gputopo_kube.errors import ApiError

_RETRY_SECONDS: Final = 1.0
_START_SECONDS: Final = 10.0
"""Longest wait for the API server at the start. Then the agent starts without it."""

_log = logging.getLogger(__name__)


async def load_known_topology(
    connection: ApiConnection,
    node: NodeWatch,
    publisher: TopologyPublisher,
    file: TopologyFile,
    metrics: AgentMetrics,
) -> NodeTopology | None:
    """Return the topology in the node's GPUTopology, or None if the API server has none.

    If the API server does not respond in 10 s, return the topology from the state file. The agent
    waits no longer: a restarted kubelet may reject running pods until the agent reports their GPUs.
    """
    try:
        async with asyncio.timeout(_START_SECONDS):
            await connection.wait_connected()
            await node.wait_read()
            return await _load_published(publisher, metrics)
    except TimeoutError:
        _log.error("starting without the API server")
        return file.load()


async def _load_published(
    publisher: TopologyPublisher, metrics: AgentMetrics
) -> NodeTopology | None:
    while True:
        try:
            return await publisher.load()
        except ApiError as error:
            metrics.record_failure("contact", error)
            await asyncio.sleep(_RETRY_SECONDS)
