"""The MPS daemons of the node, also while the component that runs them does not respond."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from gputopo.runtime.log import fields
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.sharing.client import (
    MpsConnection,
    MpsError,
    MpsGpu,
    MpsState,
    MpsUnavailableError,
    SharedGpuFault,
)
from gputopo_deviceplugin.sharing.presence import MpsPresence

_RETRY_SECONDS: Final = 0.2
_PATIENCE_SECONDS: Final = 20.0
"""How long a container waits for the component before its start; kubelet waits 30 s."""

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class MpsDaemons:
    """Starts, ends and reads daemons. One start or end at a time for each GPU.

    A daemon that starts slowly must not delay kubelet's call for another GPU.

    Attributes:
        known: the daemons as the component or the node has last shown them.
        outage: why the component does not respond; None if it has responded to the last request.
    """

    def __init__(self, connection: MpsConnection, presence: MpsPresence) -> None:
        """Send requests over ``connection``; look at daemons by ``presence``."""
        self.known: dict[GpuUuid, MpsGpu] = {}
        self.outage: str | None = None
        self._connection = connection
        self._presence = presence
        self._locks = defaultdict[GpuUuid, asyncio.Lock](asyncio.Lock)
        self._ended = Counter[GpuUuid]()

    async def read(self) -> MpsState:
        """Read all daemons and faults.

        Raises:
            MpsError: the component does not respond.
        """
        ended = self._ended.copy()
        state = await self._request(self._connection.state)

        def is_newest(gpu: GpuUuid) -> bool:
            """Return whether no start or end of the GPU may be newer than the response."""
            return self._ended[gpu] == ended[gpu] and not self._locks[gpu].locked()

        kept = {gpu: found for gpu, found in self.known.items() if not is_newest(gpu)}
        self.known = kept | {each.uuid: each for each in state.gpus if is_newest(each.uuid)}
        return state

    async def start(self, gpu: GpuUuid) -> None:
        """Start the daemon of a GPU, or find that it goes on while the component is down.

        Raises:
            MpsError: the daemon does not take clients.
        """
        async with self._turn(gpu):
            try:
                self.known[gpu] = await self._request(lambda: self._connection.start(gpu))
            except MpsUnavailableError:
                found = self.surviving(gpu)
                if found is None:
                    raise
                self.known[gpu] = found

    async def end(self, gpu: GpuUuid, *, only_if: Callable[[], bool] = lambda: True) -> None:
        """End the daemon of a GPU that no pod shares, if ``only_if`` is true before the request.

        Raises:
            MpsError: the daemon still has clients, or does not end.
        """
        async with self._turn(gpu):
            if only_if():
                await self._request(lambda: self._connection.stop(gpu))
                self.known.pop(gpu, None)
                _log.info("ended MPS %s", fields(gpu=gpu))

    async def acknowledge(self, fault: SharedGpuFault) -> None:
        """Delete a fault that was reported.

        Raises:
            MpsError: the component does not respond.
        """
        await self._request(lambda: self._connection.acknowledge(fault))

    async def patiently(self, operation: Callable[[], Awaitable[None]]) -> None:
        """Repeat an operation while the component does not respond, for 20 s.

        Raises:
            MpsError: the operation is not possible, or the component has not come back in time.
        """
        deadline = loop_time() + _PATIENCE_SECONDS
        while True:
            try:
                return await operation()
            except MpsUnavailableError:
                if loop_time() >= deadline:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    def folders(self, gpu: GpuUuid) -> MpsGpu:
        """Return the folders of the daemon of a GPU, which need not run yet."""
        return self.known.get(gpu) or self._presence.expected(gpu)

    def surviving(self, gpu: GpuUuid) -> MpsGpu | None:
        """Return the daemon of a GPU if it takes clients without the component.

        Its process must run, and the component must not have reported a fault of it before.
        """
        known = self.known.get(gpu)
        if known is not None and known.fault is not None:
            return None
        return self._presence.daemon(gpu)

    def serving(self) -> frozenset[GpuUuid]:
        """Return the GPUs that have a daemon, or may have one that is not known."""
        return frozenset(self.known) | self._presence.served()

    async def pause(self, seconds: float) -> None:
        """Return after ``seconds``, or at once when the component ends or starts again."""
        if self.outage is None:
            await self._presence.wait_for_end(seconds)
        else:
            await self._presence.wait_for_start(seconds)

    @asynccontextmanager
    async def _turn(self, gpu: GpuUuid) -> AsyncIterator[None]:
        async with self._locks[gpu]:
            try:
                yield
            finally:
                self._ended[gpu] += 1

    async def _request(self, send: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            result = await send()
        except MpsUnavailableError as error:
            self.outage = str(error)
            raise
        except MpsError:
            self.outage = None
            raise
        self.outage = None
        return result
