"""A fake kubelet with two resources: GPUs, and shares of GPUs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gputopo.api.shares import is_share, share_resource
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from support.kubelet.device_manager import Key
from support.kubelet.server import FakeKubelet


class SharingKubelet(FakeKubelet):
    """Kubelet allocates each resource on its own, and lists the devices of both.

    Attributes:
        shares: the device manager's part for shares; it has no servers of its own.
    """

    def __init__(self, directory: Path, resource: str, seed: int = 0) -> None:
        super().__init__(directory, resource, seed)
        self.shares = FakeKubelet(directory, share_resource(resource), seed)

    async def stop(self) -> None:
        await self.shares.forget_plugin()
        await super().stop()

    async def registered(self, request: api.RegisterRequest) -> None:
        if request.resource_name == self.shares.resource:
            await self.shares.registered(request)
        else:
            await super().registered(request)

    def listed(self) -> dict[Key, dict[str, set[str]]]:
        found = super().listed()
        for key, records in self.shares.listed().items():
            merged = found.setdefault(key, {})
            for container, ids in records.items():
                merged[container] = merged.get(container, set()) | ids
        return found

    def resource_of(self, device: str) -> str:
        return self.shares.resource if is_share(device) else self.resource

    def end_pod(self, name: str) -> None:
        """End a pod, whatever it has."""
        self.end(("default", name))
        self.shares.end(("default", name))


@asynccontextmanager
async def running_sharing_kubelet(directory: Path, resource: str) -> AsyncIterator[SharingKubelet]:
    """Run a kubelet in ``directory``, which must be short."""
    kubelet = SharingKubelet(directory, resource)
    await kubelet.start()
    try:
        yield kubelet
    finally:
        await kubelet.stop()
