"""A node whose agent offers shares of GPUs: kubelet with two resources, and MPS."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputopo.api.shares import share_id
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.kubelet.v1beta1.api_pb2 import ContainerAllocateResponse
from support.agent.mps import FakeMps, serving_mps
from support.agent.world import PATIENCE_SECONDS, AgentWorld, agent_world
from support.api.store import PODS, Document
from support.builders.shares import sharing_pod
from support.kubelet.sharing import SharingKubelet, running_sharing_kubelet

PER_GPU = 3


@dataclass(slots=True)
class SharingWorld:
    """Everything around one agent that offers ``PER_GPU`` shares of each GPU."""

    node: AgentWorld
    mps: FakeMps

    @property
    def kubelet(self) -> SharingKubelet:
        found = self.node.kubelet
        assert isinstance(found, SharingKubelet)
        return found

    def share(self, gpu: int, number: int = 0) -> GpuUuid:
        """Return the device ID of a share."""
        return share_id(GpuUuid(self.node.uuids[gpu]), number)

    def devices(self, health: str = "Healthy") -> dict[str, str]:
        """Return all shares with this health."""
        return {
            self.share(gpu, number): health
            for gpu in range(len(self.node.uuids))
            for number in range(PER_GPU)
        }

    def place(self, name: str, gpu: int, number: int = 0, **fields: Any) -> Document:
        """Bind a pod with a share, as the extender does."""
        document = sharing_pod(name, share=self.share(gpu, number), **fields)
        self.node.api.put(PODS, document)
        return document

    async def admit(self, name: str, shares: int = 1) -> ContainerAllocateResponse:
        """Let kubelet admit a pod with shares."""
        given = await self.kubelet.shares.admit(("default", name), {"main": shares})
        return given["main"]

    async def run(
        self, name: str, gpu: int, number: int = 0, **fields: Any
    ) -> ContainerAllocateResponse:
        """Bind a pod with a share and let kubelet admit it."""
        self.place(name, gpu, number, **fields)
        return await self.admit(name)

    async def start(self, name: str) -> None:
        """Start the container of a pod with a share."""
        await self.kubelet.shares.start_container(("default", name))

    async def end(self, name: str) -> None:
        """End a pod and all its processes."""
        await self.node.set_phase(name, "Succeeded")
        self.kubelet.end_pod(name)

    async def served(self) -> None:
        """Return when kubelet has both resources."""
        await self.node.served()
        await self.kubelet.shares.wait_for_devices(self.devices())

    async def until_gpu(self, gpu: int, wanted: Mapping[str, object]) -> None:
        """Return when the status of a GPU has these fields."""
        await self.node.until(lambda: wanted.items() <= self.node.observed(gpu).items())


@asynccontextmanager
async def sharing_world(
    directory: Path, library_dir: Path, **settings: Any
) -> AsyncIterator[SharingWorld]:
    """Run the fakes of a node; its sockets are in ``directory``."""
    async with (
        serving_mps(directory) as mps,
        agent_world(
            directory,
            library_dir,
            start_kubelet=running_sharing_kubelet,
            shares_per_gpu=PER_GPU,
            mps_socket=mps.socket,
            mps_timeout_seconds=PATIENCE_SECONDS,
            **settings,
        ) as node,
    ):
        yield SharingWorld(node, mps)
