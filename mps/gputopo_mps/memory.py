"""Limits the GPU memory of the processes on one shared GPU, and shows which pods exceed theirs.

MPS limits each process, not the sum of the processes of a pod.
"""

import logging

from gputopo.runtime.log import fields
from gputopo_mps.control import ControlProgram
from gputopo_mps.exclusive import ExclusiveMode
from gputopo_mps.limits import Excess, MemoryLimits
from gputopo_mps.parts import NodeParts

_log = logging.getLogger(__name__)


class GpuMemory:
    """The memory of one GPU.

    Attributes:
        exceeded: the pods that use more than they may have, at the last check.
    """

    def __init__(
        self, uuid: str, control: ControlProgram, mode: ExclusiveMode, parts: NodeParts
    ) -> None:
        self._uuid = uuid
        self._control = control
        self._mode = mode
        self._parts = parts
        self._applied: tuple[int, int] | None = None
        self.exceeded: list[Excess] = []

    @property
    def limits(self) -> MemoryLimits:
        """The limits with the pods that share the GPU now."""
        most = self._parts.settings.max_pods_per_gpu
        return MemoryLimits(self._mode.memory_bytes, most, self._parts.declared(self._uuid))

    async def apply(self, server: int | None) -> None:
        """Set the limit of each process that connects later, if it has changed.

        Raises:
            ControlError: the daemon or the server rejects it.
        """
        if server is None:
            return
        limit = self.limits.of_process
        if (server, limit) != self._applied:
            await self._control.set_default_limit(limit)
            await self._control.set_limit(server, limit)
            self._applied = (server, limit)

    def check(self) -> None:
        """Find the pods that use too much, by what NVML showed at the last call."""
        pod_of = self._parts.processes.pod_of
        used = [(pod_of(pid), each) for pid, each in self._mode.used_bytes.items()]
        former = {each.pod for each in self.exceeded}
        self.exceeded = self.limits.exceeded(used)
        for each in self.exceeded:
            if each.pod not in former:
                _log.warning(
                    "pod exceeds its GPU memory, which MPS does not prevent %s",
                    fields(
                        gpu=self._uuid, pod=each.pod, used=each.used_bytes, limit=each.limit_bytes
                    ),
                )

    def reset(self) -> None:
        """Forget what was set and seen, because the daemon has ended."""
        self._applied, self.exceeded = None, []
