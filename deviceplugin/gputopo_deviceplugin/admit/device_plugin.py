"""Serves the device-plugin API to kubelet. Converts the API's messages to plain values and back."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import ClassVar, Protocol

import grpc
import grpc.aio

from gputopo.api.shares import gpu_of
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.admission import Admission
from gputopo_deviceplugin.admit.identify import (
    AdmissionRejection,
    ContainerAllocation,
    PreferenceRequest,
)
from gputopo_deviceplugin.admit.response import (
    CONTROL_DEVICES,
    add_locality,
    add_steps_socket,
    cdi_response,
    device_node_response,
)
from gputopo_deviceplugin.gpus.health import Health
from gputopo_deviceplugin.gpus.numa import numa_nodes_of, read_local_cpus
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.registration import plugin_options
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from gputopo_deviceplugin.kubelet.v1beta1.api_pb2_grpc import DevicePluginServicer
from gputopo_deviceplugin.settings import AgentSettings


class StepsFolders(Protocol):
    """Creates the sockets to which training programs send how many steps they have made."""

    def open_for(self, allocation: ContainerAllocation) -> Path | None:
        """Create the container's socket. Return its folder, or None if no socket was created."""
        ...


class GpuDevicePlugin(DevicePluginServicer):
    """Serves this node's GPUs to kubelet. The ID of a device is the UUID of the GPU.

    :class:`gputopo_deviceplugin.sharing.device_plugin.ShareDevicePlugin` serves shares of GPUs.

    Attributes:
        before_start: whether kubelet calls PreStartContainer before each start of a container. It
            does not for whole GPUs: their containers start again while the agent hangs.
    """

    before_start: ClassVar = False

    def __init__(
        self,
        state: GpuState,
        kubelet: KubeletState,
        admission: Admission,
        folders: StepsFolders,
        settings: AgentSettings,
    ) -> None:
        self._state = state
        self._kubelet = kubelet
        self._admission = admission
        self._folders = folders
        self._settings = settings

    async def GetDevicePluginOptions(  # noqa: N802 - the API's name
        self,
        request: api.Empty,  # noqa: ARG002
        context: grpc.aio.ServicerContext[api.Empty, api.DevicePluginOptions],  # noqa: ARG002
    ) -> api.DevicePluginOptions:
        """Announce which calls the plugin serves."""
        return plugin_options(before_start=self.before_start)

    async def ListAndWatch(  # noqa: N802
        self,
        request: api.Empty,  # noqa: ARG002
        context: grpc.aio.ServicerContext[api.Empty, api.ListAndWatchResponse],  # noqa: ARG002
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        """Send all GPUs with health and NUMA nodes now, and again at every change."""
        self._kubelet.add_watcher()
        changes = self._state.changes
        try:
            while True:
                sent = self._offered()
                yield _devices(*sent)
                while self._offered() == sent:
                    await changes.wait_after(changes.count)
        finally:
            self._kubelet.remove_watcher()

    async def GetPreferredAllocation(  # noqa: N802
        self,
        request: api.PreferredAllocationRequest,
        context: grpc.aio.ServicerContext[
            api.PreferredAllocationRequest, api.PreferredAllocationResponse
        ],
    ) -> api.PreferredAllocationResponse:
        """Return the GPUs that the extender has chosen for the container that kubelet admits."""
        response = api.PreferredAllocationResponse()
        for each in request.container_requests:
            preference = PreferenceRequest(
                available=frozenset(map(GpuUuid, each.available_deviceIDs)),
                required=frozenset(map(GpuUuid, each.must_include_deviceIDs)),
                size=each.allocation_size,
            )
            gpus = await self._admission.prefer(preference)
            if isinstance(gpus, AdmissionRejection):
                await context.abort(_code(gpus), gpus.reason)
            response.container_responses.add(deviceIDs=gpus)
        return response

    async def Allocate(  # noqa: N802
        self,
        request: api.AllocateRequest,
        context: grpc.aio.ServicerContext[api.AllocateRequest, api.AllocateResponse],
    ) -> api.AllocateResponse:
        """Allocate exactly the GPUs that the extender has chosen, in rank order, or fail."""
        response = api.AllocateResponse()
        for each in request.container_requests:
            result = await self._admission.allocate([*map(GpuUuid, each.devices_ids)])
            if isinstance(result, AdmissionRejection):
                await context.abort(_code(result), result.reason)
            injected = self._inject(result)
            self._add_locality(injected, result)
            # The agent knows that the GPUs are this container's, so the socket is its own too.
            if (folder := self._folders.open_for(result)) is not None:
                add_steps_socket(injected, folder)
            response.container_responses.append(injected)
        return response

    def _offered(self) -> tuple[Health, Mapping[GpuUuid, int]]:
        """Return the health of the devices, and the NUMA nodes to report."""
        return self._state.offered, self._state.numa_nodes

    def _inject(self, allocation: ContainerAllocation) -> api.ContainerAllocateResponse:
        settings, gpus = self._settings, [*map(gpu_of, allocation.gpus)]
        if settings.injected_cdi_kind is not None:
            return cdi_response(gpus, settings.injected_cdi_kind)
        folder = settings.device_mount or settings.device_dir
        controls = [name for name in CONTROL_DEVICES if (folder / name).exists()]
        known = self._state.known.gpus
        return device_node_response(gpus, known, controls, settings.device_dir)

    def _add_locality(
        self, response: api.ContainerAllocateResponse, allocation: ContainerAllocation
    ) -> None:
        known = self._state.known.gpus
        numa_nodes = numa_nodes_of(known[uuid] for uuid in map(gpu_of, allocation.gpus))
        cpus = read_local_cpus(self._settings.system_dir, numa_nodes) if numa_nodes else ()
        add_locality(response, numa_nodes, cpus)


def _code(rejection: AdmissionRejection) -> grpc.StatusCode:
    """Return the code that kubelet copies to the pod's status, from where the extender reads it."""
    if rejection.node_fault:
        return grpc.StatusCode.FAILED_PRECONDITION
    return grpc.StatusCode.INVALID_ARGUMENT


def _devices(health: Health, numa_nodes: Mapping[GpuUuid, int]) -> api.ListAndWatchResponse:
    return api.ListAndWatchResponse(
        devices=[
            api.Device(
                ID=uuid,
                health="Healthy" if fault is None else "Unhealthy",
                topology=_topology(numa_nodes.get(uuid)),
            )
            for uuid, fault in health.items()
        ]
    )


def _topology(numa_node: int | None) -> api.TopologyInfo | None:
    return None if numa_node is None else api.TopologyInfo(nodes=[api.NUMANode(ID=numa_node)])
