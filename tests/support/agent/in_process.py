"""The agent's decisions between a device manager and an API server, all in this process.

The pods, admission, device plugin and observer are the real ones. Sockets, registration, NVML and
publishing are left out: component tests cover them.
"""

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import grpc
import grpc.aio

from gputopo.api.names import RESOURCE
from gputopo.topology.model import GpuUuid, NodeTopology
from gputopo_deviceplugin.admit.admission import Admission
from gputopo_deviceplugin.admit.device_plugin import GpuDevicePlugin, StepsFolders
from gputopo_deviceplugin.admit.identify import ContainerAllocation
from gputopo_deviceplugin.admit.lock import AdmissionLock
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.apiserver.node_api import parse_node_pod
from gputopo_deviceplugin.apiserver.node_pods import NodePods
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod, PodResourcesClient
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from gputopo_deviceplugin.report.observer import AllocationObserver
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_deviceplugin.statefile import StateFile
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.client import Listing, WatchEvent
from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import ApiError
from gputopo_kube.pods import PodView
from support.builders.objects import at_version
from support.kubelet.device_manager import DeviceManager

Value = TypeVar("Value")
Document = dict[str, Any]
NODE = "n1"
_DEVICES = Path(__file__).parents[2] / "data/dev"
"""Device nodes of the host: only ``nvidiactl``."""

_WATCH_SECONDS = 0.2
_RECORDING_SECONDS = 0.05
"""Time from Allocate's response to kubelet's record of it."""


class PodsOfApiServer:
    """The pods of one node; a watch that can lag, and a server that can be unavailable.

    Each change has a resource version, which reads of single pods return too: the agent compares
    the versions of a read and of the watch.

    Attributes:
        pods: as the server has them.
        mute: the watch shows no change for now.
        down: the server does not respond.
    """

    def __init__(self) -> None:
        self.pods: dict[ObjectKey, Document] = {}
        self.mute = False
        self.down = False
        self._log: list[WatchEvent[PodView]] = []

    def put(self, document: Document) -> None:
        """Create or replace a pod."""
        stored = copy.deepcopy(at_version(document, len(self._log) + 1))
        record = self._record(stored)
        self.pods[record.key] = stored
        self._log.append(WatchEvent(record, deleted=False))

    def delete(self, key: ObjectKey) -> None:
        """Delete a pod."""
        last = at_version(self.pods.pop(key), len(self._log) + 1)
        self._log.append(WatchEvent(self._record(last), deleted=True))

    def delete_gracefully(self, key: ObjectKey) -> None:
        """Begin to delete a pod: it exists until kubelet has ended it."""
        document = self.pods[key]
        leaving = {**document["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        self.put({**document, "metadata": leaving})

    async def list(self) -> Listing[PodView]:
        """Return all pods."""
        self._respond()
        records = [self._record(document) for document in self.pods.values()]
        return Listing(records, str(len(self._log)))

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[PodView], None]:
        """Yield the changes since a list."""
        seen = int(resource_version)
        while True:
            self._respond()
            while seen < len(self._log) and not self.mute:
                seen += 1
                yield self._log[seen - 1]
            await asyncio.sleep(_WATCH_SECONDS)

    async def find(self, name: str, namespace: str) -> PodView | None:
        """Return one pod."""
        self._respond()
        key = ObjectKey(namespace, name)
        return self._record(self.pods[key]) if key in self.pods else None

    def _respond(self) -> None:
        if self.down:
            raise ApiError("503", 503)

    def _record(self, document: Document) -> PodView:
        return parse_node_pod(document, RESOURCE)


class Context:
    """The context of a call of the device plugin."""

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        """End the call with an error, as kubelet would see it."""
        empty = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(code, empty, empty, details, None)


class PluginInProcess:
    """Calls the device plugin as kubelet does; ``during_allocate`` runs meanwhile."""

    def __init__(self, servicer: GpuDevicePlugin, during_allocate: Callable[[], None]) -> None:
        self._servicer = servicer
        self._during_allocate = during_allocate

    async def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, /
    ) -> api.PreferredAllocationResponse:
        context: Any = Context()
        return await self._servicer.GetPreferredAllocation(request, context)

    async def Allocate(self, request: api.AllocateRequest, /) -> api.AllocateResponse:  # noqa: N802
        self._during_allocate()
        context: Any = Context()
        reply = await self._servicer.Allocate(request, context)
        self._during_allocate()
        await asyncio.sleep(_RECORDING_SECONDS)
        return reply


class Processes:
    """The processes of the pods, and a folder below ``/run``: the state that survives an agent.

    Attributes:
        pods: UIDs of the pods of which a process runs.
    """

    def __init__(self) -> None:
        self.pods: set[str] = set()
        self.file = MemoryFile()
        self.available = True

    def running(self, uids: Collection[str]) -> set[str]:
        """Return the pods of which a process runs."""
        return self.pods & {*uids}


class MemoryFile(StateFile):
    """A state file without a file."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self._text = "null"

    def load(self, parse: Callable[[Any], Value]) -> Value | None:
        document = json.loads(self._text)
        return None if document is None else parse(document)

    def save(self, document: Any) -> None:
        self._text = json.dumps(document)


def _fail(what: str, error: Exception) -> NoReturn:
    raise AssertionError(what) from error


class RecordedEvents(EventRecorder):
    """The events of one run of the agent.

    Attributes:
        rejections: the reasons.
        allocations: pods and the GPUs that one of their containers got, in rank order.
        differing: UIDs of the pods for which a difference was recorded.
        invalid: what is wrong with the annotations of pods.
    """

    def __init__(self) -> None:
        self.rejections: list[str] = []
        self.allocations: list[tuple[PodView, Sequence[GpuUuid]]] = []
        self.differing: set[str] = set()
        self.invalid: list[str] = []

    def record_allocation(
        self,
        pod: PodView,
        container: str,  # noqa: ARG002
        gpus: Sequence[GpuUuid],
    ) -> None:
        self.allocations.append((pod, gpus))

    def record_rejection(self, pod: PodView | None, reason: str) -> None:  # noqa: ARG002
        self.rejections.append(reason)

    def record_difference(self, pod: PodView, message: str) -> None:  # noqa: ARG002
        self.differing.add(pod.uid)

    def record_invalid_measuring(self, pod: PodView, reason: str) -> None:  # noqa: ARG002
        self.invalid.append(reason)


class NoFolders:
    """Gives no container a steps socket."""

    def open_for(self, allocation: ContainerAllocation) -> Path | None:  # noqa: ARG002
        return None


class AgentInProcess:
    """One run of the agent."""

    def __init__(
        self,
        topology: NodeTopology,
        server: PodsOfApiServer,
        manager: DeviceManager,
        pod_resources: PodResourcesClient | None = None,
        processes: Processes | None = None,
        folders: StepsFolders | None = None,
        timeout_seconds: float = 1.5,
    ) -> None:
        """Read the list of ``manager``, or of ``pod_resources``.

        ``timeout_seconds`` is the limit of one call of ``pod_resources``.
        """
        processes = processes or Processes()
        self.recorder = RecordedEvents()
        self.changes = changes = ChangeSignal()
        self.connection = ApiConnection(changes)
        self.pods = NodePods(server, self.connection, changes, silence_seconds=60.0)
        self.current = GpuState()
        self.kubelet = KubeletState(changes)
        self.current.set_hardware(
            NodeHardware(topology, dict.fromkeys(gpu.uuid for gpu in topology.gpus), None)
        )
        self._manager = manager
        self.tracker = UsageTracker(self.pods, processes, processes.file, _fail)
        lock = AdmissionLock()
        settings = AgentSettings(
            node=NODE, device_mount=_DEVICES, admission_timeout_seconds=timeout_seconds
        )
        self.admission = Admission(
            self.tracker,
            pod_resources or self,
            lock,
            self.current,
            self.kubelet,
            self.recorder,
            settings,
        )
        self.observer = AllocationObserver(
            self.tracker,
            pod_resources or self,
            lock,
            self.kubelet,
            self.recorder,
            node=NODE,
            timeout_seconds=timeout_seconds,
        )
        self.plugin = GpuDevicePlugin(
            self.current,
            self.kubelet,
            self.admission,
            folders or NoFolders(),
            settings,
        )
        self._following: asyncio.Task[None] | None = None

    async def list_pods(self, timeout_seconds: float) -> list[ListedPod]:  # noqa: ARG002
        """Return kubelet's list, as the socket shows it."""
        assert not self._manager.checkpoint.allocating
        return [
            ListedPod(
                ObjectKey(*key),
                {name: frozenset(map(GpuUuid, ids)) for name, ids in records.items()},
            )
            for key, records in self._manager.listed().items()
        ]

    async def start(self) -> None:
        """Follow the API server."""
        self._following = asyncio.create_task(self.pods.run())
        await asyncio.sleep(0)

    async def stop(self) -> None:
        """Stop; an error of the agent fails the test."""
        assert self._following is not None
        assert not self._following.done(), self._following
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
