"""The state of the connection to the API server, written by requests and by the monitor."""

import asyncio
import logging

from gputopo_deviceplugin.clock import loop_time
from gputopo_kube.changes import ChangeSignal

_log = logging.getLogger(__name__)


class ApiConnection:
    """State of the connection to the API server.

    Attributes:
        responded_at: time of the last response, by the event loop's clock.
        pod_unread: this event is set by a failed read of a pod, and cleared by the next heartbeat.
        responding: this event is set while the API server responds.
        lost: this event is set when the API server stops responding, and cleared by a response.
    """

    def __init__(self, changes: ChangeSignal) -> None:
        self._changes = changes
        self._connected = asyncio.Event()
        self.responded_at = float("-inf")
        self.pod_unread = asyncio.Event()
        self.responding = asyncio.Event()
        self.lost = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether the API server responds, and the agent knows the current pods of this node."""
        return self._connected.is_set()

    async def wait_connected(self) -> None:
        """Wait until ``connected`` is true."""
        await self._connected.wait()

    def record_response(self) -> None:
        """Record a successful response or a watch event."""
        self.responded_at = loop_time()
        if not self.responding.is_set():
            self.lost.clear()
            self.responding.set()
            _log.info("the API server responds; the agent lists the pods now")

    def record_unread_pod(self) -> None:
        """Record that a pod could not be read.

        The monitor then sends a heartbeat at once. If the heartbeat fails too, the monitor treats
        the API server as lost.
        """
        self.pod_unread.set()

    def record_pod_list(self) -> None:
        """Record that the agent has a new list of this node's pods."""
        if self.responding.is_set() and not self.connected:
            self._connected.set()
            _log.info("connected to the API server")
            self._changes.notify()

    def record_loss(self) -> None:
        """Record that the API server no longer responds."""
        self.responding.clear()
        self._connected.clear()
        self.lost.set()
        self._changes.notify()
