"""Finds out whether the API server responds to this agent.

A node can be Ready while its agent does not reach the API server. The agent then rejects each new
pod, so it must detect the loss. A watch alone does not show the loss: if the network silently drops
packets, the watch receives no events and no error. So the agent sends a heartbeat when it has
received nothing for some seconds.

A heartbeat that the API server rejects with status 429 (too many requests) is a response too: the
connection works. If all agents of a busy cluster treated it as a loss, all nodes would withdraw
their free GPUs, and each agent would then list its objects again and so add load.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final, Protocol

from gputopo.runtime.log import fields
from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.clock import loop_time
from gputopo_kube.errors import ApiError

QUIET_SECONDS: Final = 4.0
"""Time without a response before a heartbeat. 1,000 nodes send at most 250 heartbeats a second."""

RESPONSE_SECONDS: Final = 2.0
PAUSE_SECONDS: Final = 1.0
LOST_SECONDS: Final = 8.0
"""The agent treats the API server as lost after this time, if two heartbeats have failed.

It detects the loss at most 9 s after the last response: the first heartbeat lasts from second 4 to
second 6, and the second heartbeat from second 7 to second 9.
"""

THROTTLED_SECONDS: Final = 60.0
"""The agent also treats the API server as lost after this time with throttled heartbeats only.

The API server rejects the lists of the agent too, so the agent may lack changes of its pods.
"""

_log = logging.getLogger(__name__)


class HeartbeatApi(Protocol):
    """The requests that the monitor sends. ``NodeApi`` implements this protocol."""

    async def heartbeat(self) -> None:
        """Send a small authenticated request."""
        ...

    def abandon(self) -> None:
        """Abort all requests in flight, so that they fail immediately."""
        ...


class ConnectionMonitor:
    """Sends heartbeats, and runs the reflectors only while the API server responds."""

    def __init__(self, connection: ApiConnection, api: HeartbeatApi) -> None:
        self._connection = connection
        self._api = api
        self._failed_at = float("-inf")
        self._failures = 0
        self._throttled_at = float("-inf")

    async def run(self) -> None:
        """Send a heartbeat whenever the API server has sent nothing for some seconds."""
        while True:
            await self._pause()
            pod_unread = self._connection.pod_unread.is_set()
            self._connection.pod_unread.clear()
            started_at = loop_time()
            try:
                async with asyncio.timeout(RESPONSE_SECONDS):
                    await self._api.heartbeat()
            except (ApiError, TimeoutError) as error:
                # Another request may have succeeded meanwhile.
                if self._connection.responded_at <= started_at:
                    if _is_throttled(error):
                        self._record_throttled(error, pod_unread=pod_unread)
                    else:
                        self._record_failure(error, pod_unread=pod_unread)
            else:
                self._connection.record_response()

    async def run_while_responding(self, *loops: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``loops`` while the API server responds.

        When the API server is lost, the method cancels the loops. It starts the loops again at the
        next response. Each loop then lists its objects again, because its watch may have missed
        events.
        """
        while True:
            await self._connection.responding.wait()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(loop()) for loop in loops]
                await self._connection.lost.wait()
                for task in tasks:
                    task.cancel()

    async def _pause(self) -> None:
        unread = self._connection.pod_unread
        while not unread.is_set() and (rest := self._next_at() - loop_time()) > 0:
            try:
                async with asyncio.timeout(rest):
                    await unread.wait()
            except TimeoutError:
                continue

    def _next_at(self) -> float:
        if self._heard_at >= self._failed_at:
            return self._heard_at + QUIET_SECONDS
        # Jitter after a loss, so that the agents of all nodes do not list at the same time.
        lost = not self._connection.responding.is_set()
        pause = PAUSE_SECONDS * random.uniform(0.5, 1.0) if lost else PAUSE_SECONDS  # noqa: S311
        return self._failed_at + pause

    @property
    def _heard_at(self) -> float:
        """Time of the last response, also of one with status 429."""
        return max(self._connection.responded_at, self._throttled_at)

    def _record_throttled(self, error: Exception, *, pod_unread: bool) -> None:
        responded_at = self._connection.responded_at
        if responded_at >= self._throttled_at:
            _log.warning("heartbeat throttled %s", fields(reason=str(error)))
        self._throttled_at = loop_time()
        if pod_unread or self._throttled_at - responded_at >= THROTTLED_SECONDS:
            self._record_loss(self._throttled_at - responded_at)

    def _record_failure(self, error: Exception, *, pod_unread: bool) -> None:
        first = self._heard_at >= self._failed_at
        self._failures = 1 if first else self._failures + 1
        self._failed_at = loop_time()
        if first:
            reason = str(error) or "no response in time"
            _log.warning("no response from the API server %s", fields(reason=reason))
        silent_seconds = self._failed_at - self._heard_at
        overdue = self._failures > 1 and silent_seconds >= LOST_SECONDS
        if pod_unread or overdue:
            self._record_loss(silent_seconds)

    def _record_loss(self, silent_seconds: float) -> None:
        if self._connection.responding.is_set():
            _log.error("API server lost %s", fields(silent_seconds=round(silent_seconds, 1)))
            self._connection.record_loss()
            self._api.abandon()


def _is_throttled(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.status == HTTPStatus.TOO_MANY_REQUESTS
