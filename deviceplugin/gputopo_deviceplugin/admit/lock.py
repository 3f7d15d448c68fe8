"""Prevents reads of kubelet's pod-resources list while kubelet admits a container."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gputopo_deviceplugin.clock import loop_time


class AdmissionLock:
    """Serializes kubelet's calls, and delays reads of kubelet's pod-resources list.

    When a pod has ended, the next read of the list makes kubelet compute the free GPUs again, from
    its stored allocations. Kubelet stores the allocation of a container shortly after Allocate. If
    the agent read the list before that, kubelet would treat the container's GPUs as free.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._in_flight_until = 0.0

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Hold the lock for one call from kubelet, after all earlier calls have ended."""
        async with self._lock:
            yield

    def set_in_flight(self, seconds: float) -> None:
        """Delay reads of kubelet's pod-resources list for ``seconds``; 0 ends the delay."""
        self._in_flight_until = loop_time() + seconds

    @asynccontextmanager
    async def idle(self) -> AsyncIterator[None]:
        """Wait until kubelet admits no container. Its next call waits until the ``with`` ends."""
        while True:
            await asyncio.sleep(max(0.0, self._in_flight_until - loop_time()))
            async with self._lock:
                if self._in_flight_until <= loop_time():
                    yield
                    return
