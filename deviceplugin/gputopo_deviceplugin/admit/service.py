"""The device-plugin API for kubelet: turns messages into values, asks, and turns back."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.admission import Admission
from gputopo_deviceplugin.admit.identify import AdmissionRejection, PreferenceRequest
from gputopo_deviceplugin.admit.verify import Grant
from gputopo_deviceplugin.gpus.health import Health
from gputopo_deviceplugin.kubelet.registration import OPTIONS
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from gputopo_deviceplugin.kubelet.v1beta1.api_pb2_grpc import DevicePluginServicer
from gputopo_deviceplugin.state import GpuState


class GpuDevicePlugin(DevicePluginServicer):
    """Serves this node's GPUs; the device IDs are their UUIDs."""

    def __init__(
        self,
        state: GpuState,
        kubelet: KubeletState,
        admission: Admission,
        device_dir: Path,
    ) -> None:
        """Serve the GPUs of ``state``, with device nodes of the host's ``device_dir``."""
        self._state = state
        self._kubelet = kubelet
        self._admission = admission
        self._device_dir = device_dir

    async def GetDevicePluginOptions(  # noqa: N802 - the API's name
        self,
        request: api.Empty,  # noqa: ARG002
        context: grpc.aio.ServicerContext[api.Empty, api.DevicePluginOptions],  # noqa: ARG002
    ) -> api.DevicePluginOptions:
        """Say that a preference can be asked for."""
        return OPTIONS

    async def ListAndWatch(  # noqa: N802
        self,
        request: api.Empty,  # noqa: ARG002
        context: grpc.aio.ServicerContext[api.Empty, api.ListAndWatchResponse],  # noqa: ARG002
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        """Send all GPUs with their health now, and again at every change."""
        self._kubelet.add_watcher()
        changes = self._state.changes
        try:
            while True:
                offered = self._state.offered
                yield _devices(offered)
                while self._state.offered == offered:
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
        """Answer with the GPUs that were chosen for the container in admission."""
        reply = api.PreferredAllocationResponse()
        for one in request.container_requests:
            question = PreferenceRequest(
                available=frozenset(map(GpuUuid, one.available_deviceIDs)),
                must=frozenset(map(GpuUuid, one.must_include_deviceIDs)),
                size=one.allocation_size,
            )
            answer = await self._admission.prefer(question)
            if isinstance(answer, AdmissionRejection):
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, answer.reason)
            reply.container_responses.add(deviceIDs=answer)
        return reply

    async def Allocate(  # noqa: N802
        self,
        request: api.AllocateRequest,
        context: grpc.aio.ServicerContext[api.AllocateRequest, api.AllocateResponse],
    ) -> api.AllocateResponse:
        """Hand out exactly the GPUs that were chosen, in rank order, or fail."""
        reply = api.AllocateResponse()
        for one in request.container_requests:
            answer = await self._admission.allocate([*map(GpuUuid, one.devices_ids)])
            if isinstance(answer, AdmissionRejection):
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, answer.reason)
            reply.container_responses.append(self._container(answer))
        return reply

    def _container(self, grant: Grant) -> api.ContainerAllocateResponse:
        return api.ContainerAllocateResponse(
            envs=dict(grant.environment),
            devices=[
                api.DeviceSpec(
                    container_path=f"/dev/{name}",
                    host_path=str(self._device_dir / name),
                    permissions="rw",
                )
                for name in grant.devices
            ],
            cdi_devices=[api.CDIDevice(name=name) for name in grant.cdi_devices],
        )


def _devices(health: Health) -> api.ListAndWatchResponse:
    return api.ListAndWatchResponse(
        devices=[
            api.Device(ID=uuid, health="Healthy" if fault is None else "Unhealthy")
            for uuid, fault in health.items()
        ]
    )
