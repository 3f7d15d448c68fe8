"""Terminates the clients of deleted pods before kubelet kills their processes.

A process that is killed with work on the GPU can hang the MPS server and all its clients.
"""

import time
from collections.abc import Callable

from gputopo_kube.changes import ChangeSignal
from gputopo_mps.pods import SharingPods
from gputopo_mps.supervisor import SharedGpus


class ClientTerminator:
    """Waits for deleted pods that share a GPU."""

    def __init__(
        self,
        gpus: SharedGpus,
        pods: SharingPods,
        changes: ChangeSignal,
        *,
        repeat_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Terminate clients that connect later after ``repeat_seconds`` at the latest."""
        self._gpus = gpus
        self._pods = pods
        self._changes = changes
        self._repeat_seconds = repeat_seconds
        self._clock = clock

    async def run(self) -> None:
        """Terminate clients until cancelled."""
        while True:
            now, seen = self._clock(), self._changes.count
            if due := self._pods.due(now):
                await self._gpus.terminate(due)
            later = self._pods.next_due(now)
            wait_seconds = self._repeat_seconds if later is None else later - self._clock()
            pause_seconds = min(max(wait_seconds, 0.0), self._repeat_seconds)
            await self._changes.wait_after(seen, pause_seconds)
