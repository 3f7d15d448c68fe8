"""The MPS component's parts for one GPU, without an API server."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pynvml

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from gputopo_deviceplugin.sharing.client import MpsGpu
from gputopo_deviceplugin.sharing.device_plugin import add_mps
from gputopo_mps.cgroups import DaemonCgroup
from gputopo_mps.faults import FaultStore
from gputopo_mps.metrics import MpsMetrics
from gputopo_mps.nvml import GpuDriver
from gputopo_mps.parts import NodeParts
from gputopo_mps.processes import Processes
from gputopo_mps.settings import MpsSettings
from gputopo_mps.shared_gpu import SharedGpu
from gputopo_mps.supervisor import SharedGpus
from hardwaretest.client import Container, GpuProgram

_CHECK_SECONDS: Final = 0.25
_IDLE_POLLS: Final = 40


@dataclass(frozen=True, slots=True)
class SharedNode:
    """A node with one GPU that pods may share.

    Attributes:
        uuid: the GPU.
        driver: NVML.
        gpus: what the component runs.
        faults: the faults that it has recorded.
    """

    uuid: GpuUuid
    settings: MpsSettings
    driver: GpuDriver
    gpus: SharedGpus
    faults: FaultStore

    @property
    def gpu(self) -> SharedGpu:
        """The shared GPU; only while it is shared."""
        (found,) = self.gpus.all
        return found

    def memory_by_process(self) -> dict[str, list[tuple[int, int | None]]]:
        """Return PID and bytes of the processes in the two lists of NVML."""
        handle = pynvml.nvmlDeviceGetHandleByUUID(self.uuid)
        lists = {
            "compute": pynvml.nvmlDeviceGetComputeRunningProcesses(handle),
            "MPS": pynvml.nvmlDeviceGetMPSComputeRunningProcesses(handle),
        }
        return {
            name: [(each.pid, each.usedGpuMemory) for each in found]
            for name, found in lists.items()
        } | {"used": [(0, pynvml.nvmlDeviceGetMemoryInfo(handle).used)]}

    def container(self, memory_bytes: int, user: int = 0) -> Container:
        """Return a container as the node agent creates it for a sharing pod."""
        response = api.ContainerAllocateResponse()
        pipe = self.gpu.folders.pipe
        add_mps(response, _daemon(self.uuid, pipe, self.gpu.folders.shm), memory_bytes)
        mounts = {each.container_path: each.host_path for each in response.mounts}
        variables = {**response.envs, "CUDA_VISIBLE_DEVICES": self.uuid}
        return Container(mounts, variables, user)

    def alone(self) -> Container:
        """Return a container that has the GPU without MPS."""
        return Container({}, {"CUDA_VISIBLE_DEVICES": self.uuid})

    async def wait_until_idle(self) -> None:
        """Wait until no process uses the GPU, 10 s at most: NVML shows an ended process longer."""
        for _ in range(_IDLE_POLLS):
            if not (await self.driver.read(self.uuid)).processes:
                return
            await asyncio.sleep(_CHECK_SECONDS)

    async def start_pod(
        self, memory_bytes: int, user: int = 0, program: list[str] | None = None
    ) -> tuple[GpuProgram, str]:
        """Start a program in a sharing pod; return it and the UID of the pod."""
        found = await GpuProgram.start(self.container(memory_bytes, user), program)
        pod = str(uuid.uuid4())
        await asyncio.sleep(0.3)  # until the namespaces exist
        folder = self.settings.proc_dir / str(found.pid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup").write_text(f"0::/kubepods.slice/kubepods-pod{pod}.slice/x.scope\n")
        return found, pod


@asynccontextmanager
async def shared_node(
    uuid: GpuUuid, folder: Path, library_dir: Path, control_program: str, client_user: int | None
) -> AsyncIterator[SharedNode]:
    """Run the checks of the component while the context is open; end its daemons at the end."""
    settings = MpsSettings(
        node="hardware",
        run_dir=folder / "run",
        proc_dir=folder / "proc",
        library_dir=library_dir,
        control_program=control_program,
        client_user=client_user,
    )
    driver = GpuDriver(library_dir, settings.nvml_timeout_seconds)
    faults = FaultStore(settings.run_dir / "faults.json", settings.fault_keep_seconds)
    cgroup = DaemonCgroup(None, Path("/proc/self/cgroup"))
    processes, metrics = Processes(settings.proc_dir), MpsMetrics()
    parts = NodeParts(settings, driver, processes, faults, metrics, cgroup, lambda _: {})
    node = SharedNode(uuid, settings, driver, SharedGpus(parts), faults)
    await node.gpus.recover()
    checks = asyncio.create_task(_check(node.gpus))
    try:
        yield node
    finally:
        checks.cancel()
        with suppress(asyncio.CancelledError):
            await checks
        await node.gpus.stop_unused()
        driver.close()


async def _check(gpus: SharedGpus) -> None:
    while True:
        await gpus.check()
        await asyncio.sleep(_CHECK_SECONDS)


def _daemon(uuid: GpuUuid, pipe: Path, shm: Path) -> MpsGpu:
    return MpsGpu(uuid=uuid, state="Ready", pipe_directory=pipe, shm_directory=shm)
