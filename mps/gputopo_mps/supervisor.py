"""All shared GPUs of the node."""

import asyncio
import re
from collections.abc import Set as AbstractSet
from typing import Final

from gputopo_mps.exclusive import NotPossibleError
from gputopo_mps.folders import GpuFolders
from gputopo_mps.parts import NodeParts
from gputopo_mps.shared_gpu import SharedGpu
from gputopo_mps.tracked import kill_others

_UUID: Final = re.compile(r"GPU-[0-9A-Za-z-]+")


class SharedGpus:
    """Creates, finds and checks the shared GPUs. GPUs do not wait for each other."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self._folder = parts.settings.run_dir / "gpus"
        self._gpus: dict[str, SharedGpu] = {}

    @property
    def all(self) -> list[SharedGpu]:
        """The shared GPUs, also those for which MPS did not start."""
        return [gpu for gpu in self._gpus.values() if gpu.state is not None]

    async def start(self, uuid: str) -> SharedGpu:
        """Start MPS for a GPU and return the GPU; do nothing if it runs.

        Raises:
            NotPossibleError: it did not start.
        """
        gpu = self._gpu(uuid)
        await gpu.start()
        return gpu

    async def stop(self, uuid: str) -> None:
        """End MPS for a GPU; do nothing if it does not run.

        Raises:
            NotPossibleError: a client is connected, or a process does not end.
        """
        await self._gpu(uuid).stop()

    async def recover(self) -> None:
        """Continue with the GPUs that an earlier start of the component has left."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        self._folder.chmod(0o755)
        found = [entry.name for entry in self._folder.iterdir() if _UUID.fullmatch(entry.name)]
        await asyncio.gather(*(self._gpu(uuid).recover() for uuid in found))
        kill_others(self._parts.cgroup)

    async def check(self) -> None:
        """Check all shared GPUs once and set the metrics."""
        await asyncio.gather(*(gpu.check() for gpu in self.all))
        gpus = self.all
        clients = sum(len(gpu.clients.current) for gpu in gpus)
        above = sum(len(gpu.memory.exceeded) for gpu in gpus)
        self._parts.metrics.set_gpus([str(gpu.state) for gpu in gpus], clients, above)

    async def terminate(self, pods: AbstractSet[str]) -> None:
        """Terminate the clients of these pods."""
        await asyncio.gather(*(gpu.terminate(pods) for gpu in self.all))

    async def stop_unused(self) -> None:
        """End MPS for all GPUs without clients."""
        await asyncio.gather(*(_stop_unused(gpu) for gpu in self.all))

    def _gpu(self, uuid: str) -> SharedGpu:
        if not _UUID.fullmatch(uuid):
            raise NotPossibleError(f"GPU {uuid!r}: must be a UUID of NVML")
        if uuid not in self._gpus:
            memory = self._parts.settings.shared_memory
            folders = GpuFolders(uuid, self._folder / uuid, memory)
            self._gpus[uuid] = SharedGpu(folders, self._parts)
        return self._gpus[uuid]


async def _stop_unused(gpu: SharedGpu) -> None:
    try:
        await gpu.stop()
    except NotPossibleError:
        return  # it is in use, and its daemon goes on
