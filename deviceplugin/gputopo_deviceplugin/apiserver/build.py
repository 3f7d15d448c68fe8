"""Builds the part that follows the API server and sends requests to it."""

import asyncio
import logging

from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.apiserver.monitor import ConnectionMonitor
from gputopo_deviceplugin.apiserver.node_api import NodeApi
from gputopo_deviceplugin.apiserver.node_pods import NodePods
from gputopo_deviceplugin.apiserver.node_watch import NodeWatch
from gputopo_deviceplugin.context import AgentContext
from gputopo_kube.client import AsyncClient

_log = logging.getLogger(__name__)


class ApiPart:
    """What the API server knows of this node, and the requests about the node.

    Attributes:
        connection: whether the API server responds.
        requests: the requests.
        node: the Node and its ResourceSlices.
        pods: the pods of the node.
        recorder: writes Events.
    """

    def __init__(self, context: AgentContext, client: AsyncClient) -> None:
        settings, changes = context.settings, context.changes
        self._state = context.state
        self.connection = connection = ApiConnection(changes)
        self.requests = requests = NodeApi(
            client,
            node=settings.node,
            resource=settings.resource,
            on_response=connection.record_response,
        )
        self._monitor = ConnectionMonitor(connection, requests)
        self.node = NodeWatch(requests, settings, changes)
        silence_seconds = 2 * settings.resync_seconds
        self.pods = NodePods(requests.pods, connection, changes, silence_seconds=silence_seconds)
        self.recorder = EventRecorder(requests, settings.node, context.metrics, changes)

    async def run(self) -> None:
        """Send heartbeats, and list and watch objects, except while the node has no GPUs.

        Such a node has nothing to publish, and the chart runs an agent on every node. The agent
        connects again when NVML finds GPUs, for example because the driver was loaded.
        """
        monitor, reflectors = self._monitor, (self.pods.run, *self.node.loops)
        while True:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(monitor.run()),
                    group.create_task(monitor.run_while_responding(*reflectors)),
                ]
                await self._state.wait_idle(idle=True)
                for task in tasks:
                    task.cancel()
            self.connection.record_loss()
            _log.info("no GPUs found; the agent sends no requests to the API server meanwhile")
            await self._state.wait_idle(idle=False)
