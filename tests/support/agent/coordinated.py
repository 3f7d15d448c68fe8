"""A SharingCoordinator before the stand-in of the MPS component, without kubelet and API server."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gputopo.api.names import RESOURCE
from gputopo.api.shares import share_id
from gputopo.topology.model import GpuUuid, NodeTopology
from gputopo_deviceplugin.admit.identify import ContainerAllocation
from gputopo_deviceplugin.admit.usage import GpuUser
from gputopo_deviceplugin.apiserver.node_api import parse_node_pod
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.sharing.client import MpsConnection
from gputopo_deviceplugin.sharing.coordinator import SharingCoordinator
from gputopo_deviceplugin.sharing.daemons import MpsDaemons
from gputopo_deviceplugin.sharing.presence import MpsPresence
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView
from support.agent.in_process import RecordedEvents
from support.agent.mps import FakeMps, serving_mps
from support.api.store import Document

NODE = "n1"


class KnownUsers:
    """The part of the usage tracker that the coordinator uses.

    Attributes:
        pods: the pods of the node.
        users: the user of each device.
        assigned: allocations that kubelet does not list yet.
    """

    def __init__(self) -> None:
        self.pods: dict[ObjectKey, PodView] = {}
        self.users: dict[GpuUuid, GpuUser] = {}
        self.assigned: set[GpuUuid] = set()

    def all_users(self) -> dict[GpuUuid, GpuUser]:
        return self.users

    def find_users(self, devices: Collection[GpuUuid]) -> dict[GpuUuid, GpuUser]:
        return {device: user for device, user in self.users.items() if device in devices}

    def assigned_gpus(self) -> frozenset[GpuUuid]:
        return frozenset(self.assigned | self.users.keys())

    def put(self, document: Document) -> PodView:
        """Add a pod."""
        view = parse_node_pod(document, RESOURCE)
        self.pods[view.key] = view
        return view

    def use(self, device: GpuUuid, name: str) -> None:
        """Let kubelet list a device."""
        self.users[device] = GpuUser(ObjectKey("default", name), "main", f"uid-{name}")


class Faults(RecordedEvents):
    """The events of faults: pods with the pods that caused the fault."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[tuple[str, str | None, str]] = []
        self.excesses: list[tuple[str, str]] = []

    def record_sharing_fault(self, pod: PodView, cause: PodView | None, message: str) -> None:
        self.faults.append((pod.key.name, cause.key.name if cause else None, message))

    def record_memory_excess(self, pod: PodView, message: str) -> None:
        self.excesses.append((pod.key.name, message))


class Coordinated:
    """A coordinator and its inputs."""

    def __init__(self, topology: NodeTopology, mps: FakeMps) -> None:
        self.mps = mps
        self.gpus = [gpu.uuid for gpu in topology.gpus]
        self.users = KnownUsers()
        self.state = GpuState(3)
        self.state.set_hardware(NodeHardware(topology, dict.fromkeys(self.gpus), None))
        self.state.withhold(None, frozenset())
        self.events = Faults()
        self.metrics = AgentMetrics()
        self.changes = ChangeSignal()
        self.restart()

    def restart(self, *, timeout_seconds: float = 60.0) -> None:
        """Begin with a new coordinator."""
        users: Any = self.users
        self.daemons = MpsDaemons(
            MpsConnection(self.mps.socket, timeout_seconds=timeout_seconds),
            MpsPresence(self.mps.socket),
        )
        self.coordinator = SharingCoordinator(
            self.daemons,
            users,
            self.state,
            self.events,
            self.metrics,
            self.changes,
            node=NODE,
        )

    @property
    def sharing_faults(self) -> dict[GpuUuid, str]:
        """Why GPUs take no further sharing pods."""
        faults = {gpu: self.state.mps_faults.sharing_fault(gpu) for gpu in self.gpus}
        return {gpu: fault for gpu, fault in faults.items() if fault is not None}

    @property
    def whole_faults(self) -> dict[GpuUuid, str]:
        """Why no pod can get GPUs as a whole."""
        return dict(self.state.mps_faults.whole)

    def share(self, gpu: int, number: int = 0) -> GpuUuid:
        return share_id(self.gpus[gpu], number)

    async def check(self, times: int = 1) -> None:
        for _ in range(times):
            await self.coordinator.check()

    async def prepare(self, pod: PodView, *devices: GpuUuid) -> str | None:
        """Prepare an allocation; return why it is rejected."""
        found = await self.coordinator.prepare(ContainerAllocation(pod, "main", devices))
        return None if isinstance(found, ContainerAllocation) else found.reason

    async def start(self, gpu: int) -> str:
        """Let a container with a share of a GPU start; return why it cannot."""
        return await self.coordinator.before_start(self.gpus[gpu])


@asynccontextmanager
async def coordinated(directory: Path, topology: NodeTopology) -> AsyncIterator[Coordinated]:
    """Serve the MPS component for a coordinator."""
    async with serving_mps(directory) as mps:
        yield Coordinated(topology, mps)
        await asyncio.sleep(0)
