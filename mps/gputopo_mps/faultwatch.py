"""Detects the faults of one shared GPU and records which pods they hit."""

import asyncio
import time
from typing import Final

from gputopo_mps.clients import Clients, StoredState
from gputopo_mps.faults import FaultStore
from gputopo_mps.folders import GpuFolders
from gputopo_mps.metrics import MpsMetrics
from gputopo_mps.serverlog import ServerLog, limit_size, parse_fault
from gputopo_mps.settings import MpsSettings
from gputopo_mps.threads import in_thread

_LOG_SECONDS: Final = 0.2
"""Time in which a server writes all lines of one fault."""


class FaultWatch:
    """Follows the log and the status of the server.

    Attributes:
        log: what is read of the server's log.
        is_recorded: whether the server is in a fault that was recorded.
    """

    FAULT: Final = "FAULT"
    """Status of a server between a fatal fault and the end of the clients that it hit."""

    def __init__(
        self,
        folders: GpuFolders,
        store: FaultStore,
        metrics: MpsMetrics,
        clients: Clients,
        settings: MpsSettings,
    ) -> None:
        self.log = ServerLog(folders.log / "server.log")
        self._control_log = folders.log / "control.log"
        self._uuid = folders.uuid
        self._store = store
        self._metrics = metrics
        self._clients = clients
        self._recovery_seconds = settings.recovery_seconds
        self._read_seconds = settings.response_seconds
        self.is_recorded = False
        self._alone_since: float | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether a server without clients has not recovered in time."""
        if self._alone_since is None:
            return False
        return time.monotonic() - self._alone_since >= self._recovery_seconds

    async def follow(self, status: str) -> None:
        """Record a fault that the log or the status shows, once."""
        lines = await self._read()
        in_fault = status == self.FAULT
        if not in_fault or self._clients.current:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
        is_new = in_fault and not self.is_recorded
        # The status was read before the log, so it may not show the fault yet.
        is_logged = not in_fault and parse_fault(lines) is not None
        if is_new or is_logged:
            await asyncio.sleep(_LOG_SECONDS)
            self._add("client", "the MPS server reports a fatal fault", lines + await self._read())
        self.is_recorded = in_fault or is_logged

    async def record(self, kind: str, reason: str) -> None:
        """Record that the clients were ended: by a fault that the log shows, or for ``reason``."""
        self._add(kind, reason, await self._read())

    def reset(self, *, new_log: bool = False) -> None:
        """Forget the status, because there is a new server; ``new_log`` if its log is new too."""
        self.is_recorded, self._alone_since = False, None
        if new_log:
            self.log.offset = 0

    def restore(self, state: StoredState) -> None:
        """Continue where the state file was written."""
        self.log.offset, self.is_recorded = state.log_offset, state.fault_recorded

    async def _read(self) -> list[str]:
        """Return the new lines of the server's log, and limit the sizes of both logs."""

        def read() -> list[str]:
            limit_size(self._control_log)
            return self.log.read()

        return await in_thread(read, self._read_seconds)

    def _add(self, kind: str, reason: str, lines: list[str]) -> None:
        found = parse_fault(lines)
        cause = self._clients.pod_of(found.cause) if found and found.cause else None
        logged = self._clients.pods_of(found.clients) if found else set()
        pods = logged or self._clients.pods
        if cause is None and not pods:
            return
        message = f"{reason}; server.log: {found.message}" if found else reason
        self._metrics.count_fault("client" if found else kind)
        self._store.add(self._uuid, cause, pods, message)
