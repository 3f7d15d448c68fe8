"""Pushes changes to the viewers as server-sent events."""

import asyncio
import itertools
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

MOST_VIEWERS: Final = 200
_KEPT: Final = 200
_KEPT_BYTES: Final = 4 << 20
_MOST_WAITING: Final = 100
_PING_SECONDS: Final = 20.0
_CLOSED: Final = None

RESTART: Final = b"event: restart\ndata: {}\n\n"
"""The viewer has missed changes and must read all sections again."""

PING: Final = b": ping\n\n"


class Hub:
    """Sends each change to all viewers, and keeps the newest changes for viewers that reconnect.

    A viewer states the last change that it has. If that change is older than those that are kept,
    or of an earlier run of the server, the viewer gets ``RESTART``. A viewer that reads too slowly
    loses its waiting changes and gets ``RESTART``, so it cannot fill the memory.
    """

    def __init__(self, ping_seconds: float = _PING_SECONDS) -> None:
        """Send a comment after ``ping_seconds`` without a change, so that proxies stay open."""
        self._run = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._newest = 0
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        self._viewers: set[asyncio.Queue[bytes | None]] = set()
        self._ping_seconds = ping_seconds

    @property
    def position(self) -> str:
        """Identifies the newest change."""
        return f"{self._run}-{self._newest}"

    @property
    def viewers(self) -> int:
        """Number of connected viewers."""
        return len(self._viewers)

    def publish(self, data: str) -> None:
        """Send one line of data to all viewers."""
        self._newest = next(self._numbers)
        event = f"id: {self.position}\nevent: change\ndata: {data}\n\n".encode()
        self._keep(event)
        for queue in self._viewers:
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(RESTART)
            else:
                queue.put_nowait(event)

    def _keep(self, event: bytes) -> None:
        self._kept.append((self._newest, event))
        self._kept_bytes += len(event)
        while len(self._kept) > _KEPT or self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft()[1])

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        for queue in self._viewers:
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(_CLOSED)

    async def stream(self, since: str) -> AsyncGenerator[bytes, None]:
        """Yield the changes after ``since``, a former ``position``."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)
        # Both before the first yield: a change after it is in the queue, and only there.
        missed = self._missed(since)
        self._viewers.add(queue)
        try:
            yield b"retry: 2000\n\n"
            for event in missed:
                yield event
            while (change := await self._next(queue)) is not _CLOSED:
                yield change
        finally:
            self._viewers.discard(queue)

    async def _next(self, queue: asyncio.Queue[bytes | None]) -> bytes | None:
        try:
            async with asyncio.timeout(self._ping_seconds):
                return await queue.get()
        except TimeoutError:
            return PING

    def _missed(self, since: str) -> list[bytes]:
        run, _, text = since.rpartition("-")
        if run != self._run or not (text.isascii() and text.isdecimal()):
            return [RESTART]
        number, oldest = int(text[:18]), self._kept[0][0] if self._kept else self._newest + 1
        if number + 1 < oldest:
            return [RESTART]
        return [event for at, event in self._kept if at > number]
