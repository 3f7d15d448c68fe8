"""Serves shares of GPUs to kubelet, as a second resource beside the GPUs."""

from collections.abc import Mapping
from typing import ClassVar, Final

import grpc.aio

from gputopo.api.shares import gpu_of
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.admission import Admission
from gputopo_deviceplugin.admit.device_plugin import GpuDevicePlugin, StepsFolders
from gputopo_deviceplugin.admit.identify import ContainerAllocation
from gputopo_deviceplugin.gpus.health import Health
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_deviceplugin.sharing.client import MpsGpu
from gputopo_deviceplugin.sharing.coordinator import SharingCoordinator
from gputopo_deviceplugin.sharing.memory import memory_of

PIPE_DIRECTORY: Final = "/run/gputopo-mps"
"""Where a sharing container finds the pipe directory of its MPS daemon."""

_MIB: Final = 2**20


class ShareDevicePlugin(GpuDevicePlugin):
    """Serves the shares of this node's GPUs. A share's ID is the GPU's UUID with a number.

    Kubelet gets no NUMA nodes of shares: its topology manager counts devices of each resource
    alone, and cannot know that a GPU excludes its shares.
    """

    before_start: ClassVar = True

    def __init__(
        self,
        state: GpuState,
        kubelet: KubeletState,
        admission: Admission,
        folders: StepsFolders,
        settings: AgentSettings,
        coordinator: SharingCoordinator,
    ) -> None:
        super().__init__(state, kubelet, admission, folders, settings)
        self._coordinator = coordinator

    async def PreStartContainer(  # noqa: N802
        self,
        request: api.PreStartContainerRequest,
        context: grpc.aio.ServicerContext[
            api.PreStartContainerRequest, api.PreStartContainerResponse
        ],
    ) -> api.PreStartContainerResponse:
        """Wait until MPS serves the container's GPU, or fail.

        kubelet then tries to start the container again. Other pods do not wait: kubelet calls this
        from the worker of the pod, whereas Allocate stops kubelet's main loop, which also restarts
        the component that runs MPS.
        """
        reason = await self._coordinator.before_start(gpu_of(GpuUuid(request.devices_ids[0])))
        if reason:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
        return api.PreStartContainerResponse()

    def _offered(self) -> tuple[Health, Mapping[GpuUuid, int]]:
        return self._state.offered_shares, {}

    def _inject(self, allocation: ContainerAllocation) -> api.ContainerAllocateResponse:
        response = super()._inject(allocation)
        (device,) = allocation.gpus
        gpu = self._state.known.gpus[gpu_of(device)]
        most = self._state.shares_per_gpu
        memory = memory_of(allocation.pod, gpu_bytes=gpu.memory_bytes, most_pods=most)
        add_mps(response, self._coordinator.folders(gpu.uuid), memory)
        return response


def add_mps(response: api.ContainerAllocateResponse, daemon: MpsGpu, memory_bytes: int) -> None:
    """Connect a container with the MPS daemon of its GPU, and limit its GPU memory.

    The GPU has index 0 in the container, because the container sees only this one.
    """
    response.envs["CUDA_MPS_PIPE_DIRECTORY"] = PIPE_DIRECTORY
    response.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={memory_bytes // _MIB}M"
    response.mounts.add(container_path=PIPE_DIRECTORY, host_path=str(daemon.pipe_directory))
    response.mounts.add(container_path="/dev/shm", host_path=str(daemon.shm_directory))  # noqa: S108
