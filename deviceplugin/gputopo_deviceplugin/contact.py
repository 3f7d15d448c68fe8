"""Whether the API server answers this agent.

A node can be Ready while its agent does not reach the API server. Each pod that comes then fails
its admission. So the agent must detect the loss, also where packets are silently dropped: a watch
then looks like a quiet node. It sends a small request when nothing was heard for a few seconds.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from gputopo.runtime.log import fields
from gputopo_kube.errors import ApiError

QUIET_SECONDS: Final = 4.0
"""Send a heartbeat when nothing was heard for so long: at 1,000 nodes at most 250 a second."""

ANSWER_SECONDS: Final = 2.0
PAUSE_SECONDS: Final = 1.0
LOST_SECONDS: Final = 8.0
"""Lost after so long and two failed heartbeats, so 9 s after the last answer at the latest.

With dropped packets: last answer at 0, heartbeats from 4 to 6 and from 7 to 9.
"""

_log = logging.getLogger(__name__)


class Contact:
    """When the API server was heard last.

    Attributes:
        connected: whether it answers, and this node's pods were listed since it was lost last.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Start without contact; ``on_change`` is called when ``connected`` changes."""
        self._on_change = on_change
        self._heard_at = float("-inf")
        self._failed_at = float("-inf")
        self._failures = 0
        self._answering = asyncio.Event()
        self._lost = asyncio.Event()
        self._connected = asyncio.Event()
        self._doubt = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether devices may be offered."""
        return self._connected.is_set()

    async def wait_connected(self) -> None:
        """Return when ``connected`` is true."""
        await self._connected.wait()

    def heard(self) -> None:
        """Note a successful answer or a watch event."""
        self._heard_at = _now()
        self._failures = 0
        if not self._answering.is_set():
            self._lost.clear()
            self._answering.set()
            _log.info("the API server answers, listing the pods")

    def doubt(self) -> None:
        """Note that a pod could not be read: the next heartbeat is sent now, and it decides."""
        self._doubt.set()

    def pods_listed(self) -> None:
        """Note a new list of this node's pods."""
        if self._answering.is_set() and not self.connected:
            self._connected.set()
            _log.info("connected to the API server")
            self._on_change()

    async def run(self, heartbeat: Callable[[], Awaitable[None]]) -> None:
        """Send heartbeats where nothing else is heard, until cancelled."""
        while True:
            await self._pause()
            doubted = self._doubt.is_set()
            self._doubt.clear()
            sent_at = _now()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await heartbeat()
            except (ApiError, TimeoutError) as error:
                # Another request may have been answered meanwhile.
                if self._heard_at <= sent_at:
                    self._failed(error, doubted=doubted)
            else:
                self.heard()

    async def follow(self, *followers: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run these while the API server answers.

        They are cancelled when it is lost, and started again when it answers: a watch on a
        connection that was dead for a time must not be trusted.
        """
        while True:
            await self._answering.wait()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(follower()) for follower in followers]
                await self._lost.wait()
                for task in tasks:
                    task.cancel()

    async def _pause(self) -> None:
        while not self._doubt.is_set() and (rest := self._next_at() - _now()) > 0:
            try:
                async with asyncio.timeout(rest):
                    await self._doubt.wait()
            except TimeoutError:
                continue

    def _next_at(self) -> float:
        if self._failures == 0:
            return self._heard_at + QUIET_SECONDS
        # Jitter while it is lost, so that the agents of all nodes do not list in step.
        lost = not self._answering.is_set()
        pause = PAUSE_SECONDS * random.uniform(0.5, 1.0) if lost else PAUSE_SECONDS  # noqa: S311
        return self._failed_at + pause

    def _failed(self, error: Exception, *, doubted: bool) -> None:
        self._failures += 1
        self._failed_at = _now()
        if self._failures == 1:
            reason = str(error) or "no answer in time"
            _log.warning("API server not heard, trying again %s", fields(reason=reason))
        silent_seconds = self._failed_at - self._heard_at
        overdue = self._failures > 1 and silent_seconds >= LOST_SECONDS
        if self._answering.is_set() and (doubted or overdue):
            _log.error("API server lost %s", fields(silent_seconds=round(silent_seconds, 1)))
            self._answering.clear()
            self._connected.clear()
            self._lost.set()
            self._on_change()


def _now() -> float:
    return asyncio.get_running_loop().time()
