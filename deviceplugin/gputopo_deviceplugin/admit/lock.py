"""Keeps the agent's reads of the pod-resources list apart from kubelet's calls of admission."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class AdmissionLock:
    """One call of kubelet at a time, and no container in flight while its list is read.

    Between GetPreferredAllocation and its record after Allocate, a container is in flight. A read
    of the list in this time could make kubelet forget the container's GPUs.
    """

    def __init__(self) -> None:
        """Start without a container in flight."""
        self._lock = asyncio.Lock()
        self._in_flight_until = 0.0

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Wait for other calls to end."""
        async with self._lock:
            yield

    def set_in_flight(self, seconds: float) -> None:
        """Consider a container in flight for this time from now on; 0 ends it."""
        self._in_flight_until = _now() + seconds

    @asynccontextmanager
    async def idle(self) -> AsyncIterator[None]:
        """Wait until no container is in flight, and hold up kubelet's calls meanwhile."""
        while True:
            await asyncio.sleep(max(0.0, self._in_flight_until - _now()))
            async with self._lock:
                if self._in_flight_until <= _now():
                    yield
                    return


def _now() -> float:
    return asyncio.get_running_loop().time()
