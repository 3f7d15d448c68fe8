"""A fake kubelet for a device plugin: its device manager on real sockets, with real gRPC."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio

from gputopo_deviceplugin.kubelet.podresources import api_pb2 as podresources
from gputopo_deviceplugin.kubelet.podresources.api_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from gputopo_deviceplugin.kubelet.v1beta1.api_pb2_grpc import (
    DevicePluginStub,
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)
from support.kubelet.device_manager import DeviceManager


class RateLimit:
    """The rate limit of kubelet's pod-resources API while another client exhausts it.

    Kubelet allows 100 calls a second of all clients together, and each client gets a share of them
    in proportion to its calls. The limit counts calls instead of seconds, so that a busy machine,
    on which one client is late, does not change the share.
    """

    def __init__(self, calls_per_success: int) -> None:
        self._calls_per_success = calls_per_success
        self._calls = 0

    def allows(self) -> bool:
        """Return whether one more call is allowed, and count it."""
        self._calls += 1
        return self._calls % self._calls_per_success == 0


class FakeKubelet(DeviceManager):
    """One kubelet, which can be started and stopped again and again.

    Attributes:
        keeps_endpoints: the fault of kubelet 1.37 that it never deletes the record of an endpoint
            which registered again before its first connection had ended (kubernetes #139338).
        numa_nodes: the NUMA nodes of each device that has a topology, as reported by the plugin.
        numa_seen: whether any device had a topology, for each message since the last start.
        allocatable_cpus: CPUs that containers can get exclusively; None if kubelet fails to list.
        endpoints: file names of the registered sockets since the last start.
    """

    def __init__(self, directory: Path, resource: str, seed: int = 0) -> None:
        super().__init__(seed)
        self.plugin_dir = directory / "device-plugins"
        self.socket = directory / "pod-resources" / "kubelet.sock"
        self.registrations = 0
        self.numa_nodes: dict[str, list[int]] = {}
        self.numa_seen: list[bool] = []
        self.allocatable_cpus: list[int] | None = None
        self.registrations_rejected = 0
        self.rejects_registration = False
        self.keeps_endpoints = False
        self.endpoints: list[str] = []
        self.list_limit: RateLimit | None = None
        self.lists_served = 0
        self.lists_rejected = 0
        self.resource = resource
        self._servers: list[grpc.aio.Server] = []
        self._channel: grpc.aio.Channel | None = None
        self._watch: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()

    async def start(self) -> None:
        """Delete the sockets of the folder, as kubelet does, and listen."""
        self.endpoints, self.numa_seen = [], []
        for folder in (self.plugin_dir, self.socket.parent):
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.glob("*.sock"):
                old.unlink()
        registration, pod_resources = grpc.aio.server(), grpc.aio.server()
        add_RegistrationServicer_to_server(_Registration(self), registration)
        add_PodResourcesListerServicer_to_server(_Lister(self), pod_resources)
        registration.add_insecure_port(f"unix:{self.plugin_dir}/kubelet.sock")
        pod_resources.add_insecure_port(f"unix:{self.socket}")
        self._servers = [registration, pod_resources]
        for server in self._servers:
            await server.start()

    async def stop(self) -> None:
        """Stop; the checkpoint stays."""
        await self.forget_plugin()
        for server in self._servers:
            await server.stop(None)
        self._servers = []

    async def forget_plugin(self) -> None:
        """End the connection to the plugin."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close(None)
        self._watch = self._channel = self.plugin = None
        self.devices = {}
        self.numa_nodes = {}

    async def registered(self, request: api.RegisterRequest) -> None:
        """Connect to the plugin before the response of Register."""
        assert request.version == "v1beta1"
        assert request.resource_name == self.resource
        assert request.options.get_preferred_allocation_available
        await self.forget_plugin()
        options = (("grpc.default_authority", "localhost"),)
        self._channel = grpc.aio.insecure_channel(
            f"unix:{self.plugin_dir}/{request.endpoint}", options=options
        )
        stub = DevicePluginStub(self._channel)
        options_of_plugin = await stub.GetDevicePluginOptions(api.Empty())
        assert options_of_plugin == request.options
        self.plugin = stub
        self._watch = asyncio.create_task(self._listen(stub))
        self.registrations += 1
        self.endpoints.append(request.endpoint)

    def resource_of(self, device: str) -> str:  # noqa: ARG002 - for kubelets with several
        """Return the resource of a device."""
        return self.resource

    async def _listen(self, stub: DevicePluginStub) -> None:
        try:
            async for message in stub.ListAndWatch(api.Empty()):
                self.devices = {device.ID: device.health for device in message.devices}
                self.numa_nodes = {
                    device.ID: [node.ID for node in device.topology.nodes]
                    for device in message.devices
                    if device.HasField("topology")
                }
                self.numa_seen.append(bool(self.numa_nodes))
                await self._signal()
        except grpc.aio.AioRpcError:
            self.devices = dict.fromkeys(self.devices, "Unhealthy")
        await self._signal()

    async def _signal(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def wait_for_devices(self, wanted: Mapping[str, str]) -> None:
        """Return when the plugin reports exactly these devices."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.devices == wanted)


class _Registration(RegistrationServicer):
    def __init__(self, kubelet: FakeKubelet) -> None:
        self._kubelet = kubelet

    async def Register(  # noqa: N802
        self,
        request: api.RegisterRequest,
        context: grpc.aio.ServicerContext[api.RegisterRequest, api.Empty],
    ) -> api.Empty:
        if self._kubelet.rejects_registration:
            self._kubelet.registrations_rejected += 1
            await context.abort(grpc.StatusCode.UNKNOWN, "the resource name is invalid")
        if self._kubelet.keeps_endpoints and request.endpoint in self._kubelet.endpoints:
            self._kubelet.registrations_rejected += 1
            await context.abort(grpc.StatusCode.UNKNOWN, "device plugin already connected")
        await self._kubelet.registered(request)
        return api.Empty()


class _Lister(PodResourcesListerServicer):
    def __init__(self, kubelet: FakeKubelet) -> None:
        self._kubelet = kubelet

    async def GetAllocatableResources(  # noqa: N802
        self,
        request: podresources.AllocatableResourcesRequest,  # noqa: ARG002
        context: grpc.aio.ServicerContext[
            podresources.AllocatableResourcesRequest, podresources.AllocatableResourcesResponse
        ],
    ) -> podresources.AllocatableResourcesResponse:
        if self._kubelet.allocatable_cpus is None:
            await context.abort(grpc.StatusCode.UNKNOWN, "kubelet has no list of CPUs yet")
        return podresources.AllocatableResourcesResponse(cpu_ids=self._kubelet.allocatable_cpus)

    async def List(  # noqa: N802
        self,
        request: podresources.ListPodResourcesRequest,  # noqa: ARG002
        context: grpc.aio.ServicerContext[
            podresources.ListPodResourcesRequest, podresources.ListPodResourcesResponse
        ],
    ) -> podresources.ListPodResourcesResponse:
        limit = self._kubelet.list_limit
        if limit is not None and not limit.allows():
            self._kubelet.lists_rejected += 1
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        self._kubelet.lists_served += 1
        reply = podresources.ListPodResourcesResponse()
        for (namespace, name), containers in self._kubelet.listed().items():
            pod = reply.pod_resources.add(namespace=namespace, name=name)
            for container, ids in containers.items():
                entry = pod.containers.add(name=container)
                for uuid in ids:  # kubelet also writes one entry for each device
                    resource = self._kubelet.resource_of(uuid)
                    entry.devices.add(resource_name=resource, device_ids=[uuid])
        return reply


@asynccontextmanager
async def running_kubelet(directory: Path, resource: str) -> AsyncIterator[FakeKubelet]:
    """Run a kubelet in ``directory``, which must be short: unix sockets have 107 bytes."""
    kubelet = FakeKubelet(directory, resource)
    await kubelet.start()
    try:
        yield kubelet
    finally:
        await kubelet.stop()
