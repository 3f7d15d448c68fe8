"""A kubelet of the device manager only: real sockets, real gRPC, its order of calls, its books.

It admits one container after the other as kubelet 1.36 does: available GPUs, preference,
intersection with what is available, a random remainder, Allocate with the IDs in any order.
Whether the real kubelet does the same is for the end-to-end tests to say.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc.aio

from gputopo_deviceplugin.podresources import api_pb2 as podresources
from gputopo_deviceplugin.podresources.api_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)
from gputopo_deviceplugin.v1beta1 import api_pb2 as api
from gputopo_deviceplugin.v1beta1.api_pb2_grpc import (
    DevicePluginStub,
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)

Key = tuple[str, str]


class AdmissionRefusedError(Exception):
    """The pod is rejected; the message is what kubelet would write in its status."""


@dataclass(slots=True)
class Books:
    """What kubelet recorded; survives its restarts.

    Attributes:
        pods: every active pod with the device IDs of each container.
        allocated: IDs that kubelet takes for given, those in flight included.
        listing: whether List was called, per call: the names of pods in admission.
    """

    pods: dict[Key, dict[str, set[str]]] = field(default_factory=dict)
    allocated: set[str] = field(default_factory=set)
    allocating: bool = False
    lists_inside_allocate: int = 0


class FakeKubelet:
    """One kubelet; ``start`` and ``stop`` it as often as the test likes."""

    def __init__(self, directory: Path, resource: str, seed: int = 0) -> None:
        self.plugin_dir = directory / "device-plugins"
        self.socket = directory / "pod-resources" / "kubelet.sock"
        self.books = Books()
        self.devices: dict[str, str] = {}
        self.registrations = 0
        self.registrations_refused = 0
        self.refuses_registration = False
        self.ignore_preference: set[str] | None = None
        self.ask_preference = True
        self.insists_on: set[str] = set()
        self.refused_by = ""
        self._resource = resource
        self._random = random.Random(seed)  # noqa: S311 - repeatable disorder
        self._servers: list[grpc.aio.Server] = []
        self._channel: grpc.aio.Channel | None = None
        self._stub: DevicePluginStub | None = None
        self._watch: asyncio.Task[None] | None = None
        self._told = asyncio.Condition()

    async def start(self) -> None:
        """Wipe the sockets of the folder, as kubelet does, and listen."""
        for folder in (self.plugin_dir, self.socket.parent):
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.glob("*.sock"):
                old.unlink()
        registration, lister = grpc.aio.server(), grpc.aio.server()
        add_RegistrationServicer_to_server(_Registration(self), registration)
        add_PodResourcesListerServicer_to_server(_Lister(self), lister)
        registration.add_insecure_port(f"unix:{self.plugin_dir}/kubelet.sock")
        lister.add_insecure_port(f"unix:{self.socket}")
        self._servers = [registration, lister]
        for server in self._servers:
            await server.start()

    async def stop(self) -> None:
        """Die; the books stay."""
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
        self._watch = self._channel = self._stub = None
        self.devices = {}

    async def registered(self, request: api.RegisterRequest) -> None:
        """Dial the plugin before Register is answered."""
        assert request.version == "v1beta1"
        assert request.resource_name == self._resource
        assert request.options.get_preferred_allocation_available
        await self.forget_plugin()
        options = (("grpc.default_authority", "localhost"),)
        self._channel = grpc.aio.insecure_channel(
            f"unix:{self.plugin_dir}/{request.endpoint}", options=options
        )
        self._stub = DevicePluginStub(self._channel)
        told = await self._stub.GetDevicePluginOptions(api.Empty())
        assert told == request.options
        self._watch = asyncio.create_task(self._listen(self._stub))
        self.registrations += 1

    async def _listen(self, stub: DevicePluginStub) -> None:
        try:
            async for message in stub.ListAndWatch(api.Empty()):
                self.devices = {device.ID: device.health for device in message.devices}
                await self._tell()
        except grpc.aio.AioRpcError:
            self.devices = dict.fromkeys(self.devices, "Unhealthy")
        await self._tell()

    async def _tell(self) -> None:
        async with self._told:
            self._told.notify_all()

    async def wait_for_devices(self, wanted: Mapping[str, str]) -> None:
        """Return when the plugin reports exactly this."""
        async with self._told:
            await self._told.wait_for(lambda: self.devices == wanted)

    async def admit(
        self, key: Key, asks: Mapping[str, int]
    ) -> dict[str, api.ContainerAllocateResponse]:
        """Admit a pod; container ``name`` asks for so many GPUs.

        Raises:
            AdmissionRefusedError: the pod has failed for good.
        """
        self.books.pods[key] = {name: set() for name in asks}
        given = {}
        try:
            for name, size in asks.items():
                if size:
                    given[name] = await self._allocate(key, name, size)
        except AdmissionRefusedError:
            self.end(key)
            raise
        return given

    def end(self, key: Key) -> None:
        """The pod is not active any more."""
        self.books.pods.pop(key, None)
        self._rebuild()

    def _rebuild(self) -> None:
        held = [ids for containers in self.books.pods.values() for ids in containers.values()]
        self.books.allocated = set().union(*held)

    async def _allocate(self, key: Key, name: str, size: int) -> api.ContainerAllocateResponse:
        healthy = {uuid for uuid, health in self.devices.items() if health == "Healthy"}
        available = healthy - self.books.allocated
        if self._stub is None or len(available) < size:
            raise AdmissionRefusedError(f"needed {size}, available {len(available)}")
        ids = self._shuffled(await self._choose(available, size))
        self.books.allocated |= set(ids)
        request = api.AllocateRequest(container_requests=[{"devices_ids": ids}])
        self.books.allocating = True
        try:
            reply = await self._stub.Allocate(request)
        except grpc.aio.AioRpcError as error:
            self._rebuild()
            self.refused_by = "Allocate"
            raise AdmissionRefusedError(str(error.details())) from error
        finally:
            self.books.allocating = False
        self.books.pods[key][name] = set(ids)
        return reply.container_responses[0]

    async def _choose(self, available: set[str], size: int) -> set[str]:
        preferred: list[str] = []
        if self.ask_preference:
            assert self._stub is not None
            one = {
                "available_deviceIDs": self._shuffled(available),
                "must_include_deviceIDs": sorted(self.insists_on),
                "allocation_size": size,
            }
            request = api.PreferredAllocationRequest(container_requests=[one])
            try:
                reply = await self._stub.GetPreferredAllocation(request)
            except grpc.aio.AioRpcError as error:
                self.refused_by = "GetPreferredAllocation"
                raise AdmissionRefusedError(str(error.details())) from error
            preferred = list(reply.container_responses[0].deviceIDs)
        if self.ignore_preference is not None:
            preferred = list(self.ignore_preference)
        chosen = [uuid for uuid in preferred if uuid in available][:size]
        rest = self._shuffled(available - set(chosen))
        return {*chosen, *rest[: size - len(chosen)]}

    def _shuffled(self, ids: set[str]) -> list[str]:
        return self._random.sample(sorted(ids), len(ids))


class _Registration(RegistrationServicer):
    def __init__(self, kubelet: FakeKubelet) -> None:
        self._kubelet = kubelet

    async def Register(  # noqa: N802
        self,
        request: api.RegisterRequest,
        context: grpc.aio.ServicerContext[api.RegisterRequest, api.Empty],
    ) -> api.Empty:
        if self._kubelet.refuses_registration:
            self._kubelet.registrations_refused += 1
            await context.abort(grpc.StatusCode.UNKNOWN, "the resource name is invalid")
        await self._kubelet.registered(request)
        return api.Empty()


class _Lister(PodResourcesListerServicer):
    def __init__(self, kubelet: FakeKubelet) -> None:
        self._kubelet = kubelet

    async def List(  # noqa: N802
        self,
        request: podresources.ListPodResourcesRequest,  # noqa: ARG002
        context: grpc.aio.ServicerContext[  # noqa: ARG002
            podresources.ListPodResourcesRequest, podresources.ListPodResourcesResponse
        ],
    ) -> podresources.ListPodResourcesResponse:
        books = self._kubelet.books
        books.lists_inside_allocate += books.allocating
        reply = podresources.ListPodResourcesResponse()
        for (namespace, name), containers in books.pods.items():
            pod = reply.pod_resources.add(namespace=namespace, name=name)
            for container, ids in containers.items():
                entry = pod.containers.add(name=container)
                for uuid in ids:  # kubelet too writes one entry for each device
                    entry.devices.add(resource_name=self._kubelet._resource, device_ids=[uuid])
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
