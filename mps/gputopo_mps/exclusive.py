"""The compute mode of one GPU: with EXCLUSIVE_PROCESS, only the MPS server can use the GPU."""

import logging
from collections.abc import Collection, Mapping
from typing import Final

from gputopo.errors import GputopoError
from gputopo.runtime.log import fields
from gputopo_mps.nvml import DEFAULT, EXCLUSIVE, GpuDriver, GpuFacts

_MOST_NAMED: Final = 5

_log = logging.getLogger(__name__)


class NotPossibleError(GputopoError):
    """The GPU cannot be shared, or cannot stop being shared; the message is the reason."""


class ExclusiveMode:
    """Sets and keeps the compute mode.

    Attributes:
        memory_bytes: total memory of the GPU; 0 before the first call.
        used_bytes: memory of each process at the last call, by PID.
    """

    def __init__(self, driver: GpuDriver, uuid: str) -> None:
        self.memory_bytes = 0
        self.used_bytes: Mapping[int, int] = {}
        self._driver = driver
        self._uuid = uuid
        self._others: frozenset[int] = frozenset()

    async def read(self) -> GpuFacts:
        """Return the state of the GPU."""
        facts = await self._driver.read(self._uuid)
        self.memory_bytes, self.used_bytes = facts.memory_bytes, facts.used_bytes
        return facts

    async def check_unused(self) -> None:
        """Check that MPS can start.

        Raises:
            NotPossibleError: MIG is enabled, a process uses the GPU, or the mode is not DEFAULT.
        """
        facts = await self.read()
        if facts.mig:
            raise NotPossibleError(f"GPU {self._uuid}: MIG is enabled")
        if facts.mode != DEFAULT:
            reason = f"its compute mode is {facts.mode}, which another program has set"
            raise NotPossibleError(f"GPU {self._uuid}: {reason}")
        self._reject(facts.processes)

    async def enter(self) -> None:
        """Set EXCLUSIVE_PROCESS.

        Raises:
            NotPossibleError: a process has begun to use the GPU meanwhile.
        """
        await self._driver.set_mode(self._uuid, EXCLUSIVE)
        self._reject((await self.read()).processes)

    async def keep(self, expected: Collection[int]) -> None:
        """Set EXCLUSIVE_PROCESS again if another program has changed it.

        Args:
            expected: PIDs of the MPS servers and of their clients. NVML lists both.

        Raises:
            NotPossibleError: a process that began meanwhile uses the GPU without MPS.
        """
        facts = await self.read()
        if facts.mode == EXCLUSIVE:
            self._others &= facts.processes
        else:
            _log.warning("compute mode set again %s", fields(gpu=self._uuid, found=facts.mode))
            await self._driver.set_mode(self._uuid, EXCLUSIVE)
            self._others = (await self.read()).processes.difference(expected)
        self._reject(self._others)

    async def leave(self) -> None:
        """Set DEFAULT."""
        self._others = frozenset()
        await self._driver.set_mode(self._uuid, DEFAULT)

    def _reject(self, processes: Collection[int]) -> None:
        if processes:
            pids = ", ".join(map(str, sorted(processes)[:_MOST_NAMED]))
            raise NotPossibleError(f"GPU {self._uuid}: processes {pids} use it without MPS")
