"""Prevents reads of kubelet's pod-resources list while kubelet admits a container."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class AdmissionLock:
    """Serializes kubelet's calls, and delays reads of kubelet's pod-resources list.

    After a pod has ended, a read of the list makes kubelet find out again which GPUs are allocated.
    Kubelet then uses its stored allocations, but it stores those of a container only shortly after
    Allocate. If the list is read earlier, kubelet treats the GPUs of this container as free.
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
        self._in_flight_until = _now() + seconds

    @asynccontextmanager
    async def idle(self) -> AsyncIterator[None]:
        """Wait until kubelet admits no container. Its next call waits until the ``with`` ends."""
        while True:
            await asyncio.sleep(max(0.0, self._in_flight_until - _now()))
            async with self._lock:
                if self._in_flight_until <= _now():
                    yield
                    return


def _now() -> float:
    return asyncio.get_running_loop().time()
