"""Reads the policy of kubelet's CPU manager, again after each restart of kubelet."""

import asyncio
from typing import Final

from gputopo_deviceplugin.admit.numa_report import ReadConfig
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.nri.rule import NOT_READ, CpuManager, cpu_manager
from gputopo_kube.kubelet_config import KubeletConfigError

_MOST_PAUSES: Final = 64
"""The pause between two failed reads doubles up to this factor: kubelet logs failed handshakes."""


class CpuManagerReader:
    """The policy of the CPU manager, as it was last read.

    Attributes:
        manager: unknown until the policy was read after the last registration with kubelet.
    """

    def __init__(
        self, kubelet: KubeletState, read_config: ReadConfig, *, retry_seconds: float
    ) -> None:
        """Read with ``read_config``, again after ``retry_seconds`` if that fails."""
        self._kubelet = kubelet
        self._read_config = read_config
        self._retry_seconds = retry_seconds
        self._registration: int | None = None
        self._failures = 0
        self._retry_at = 0.0
        self.manager = NOT_READ

    async def update(self) -> None:
        """Read the policy if it is unknown, or if kubelet has started since the last read."""
        registration = self._kubelet.registrations
        if self._registration != registration:
            self._failures, self._retry_at = 0, 0.0
        elif self.manager.policy is not None or _now() < self._retry_at:
            return
        try:
            manager = cpu_manager(await self._read_config())
        except KubeletConfigError as error:
            manager = CpuManager(None, str(error))
        self._registration, self.manager = registration, manager
        if manager.policy is None:
            pause = self._retry_seconds * min(2**self._failures, _MOST_PAUSES)
            self._retry_at = _now() + pause
            self._failures += 1


def _now() -> float:
    return asyncio.get_running_loop().time()
