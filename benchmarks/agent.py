"""CPU time that the node agent needs to measure the containers of a node of 8 GPUs."""

import asyncio
import json
import socket
import tempfile
from collections.abc import AsyncGenerator, Collection
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks.measure import timed
from benchmarks.options import Options
from benchmarks.table import show
from gputopo.api.names import PROFILE_ANNOTATION
from gputopo.catalogue import named
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.apiserver.node_pods import NodePods
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.measure.containers import ContainerKey
from gputopo_deviceplugin.measure.measurer import Measurer, MeasureSources
from gputopo_deviceplugin.measure.sockets import MAX_DATAGRAMS, StepsSockets
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_deviceplugin.statefile import StateFile
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.client import Listing, WatchEvent
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.pods import PodView

_TOPOLOGY: Final = named("dgx1-v100", node="n1")
_POLLS: Final = 600
_STEPS: Final = 12


def run(options: Options) -> None:
    """Measure polls of 8 containers that are silent, report steps or flood; print the CPU time."""
    polls = 2 if options.quick else _POLLS
    costs = {
        "no container": asyncio.run(_seconds_of_poll(0, 0, polls)),
        "8 containers, silent": asyncio.run(_seconds_of_poll(8, 0, polls)),
        "8 containers, 1 message/s each": asyncio.run(_seconds_of_poll(8, 1, polls)),
        f"8 containers, {MAX_DATAGRAMS} messages/s each": asyncio.run(
            _seconds_of_poll(8, MAX_DATAGRAMS, polls)
        ),
    }
    silent = costs["8 containers, silent"]
    cells = [
        [name, f"{seconds * 1e3:,.3f}", f"{seconds * 100:,.3f}", f"{seconds / silent:,.2f}"]
        for name, seconds in costs.items()
    ]
    show("Node agent, one poll per second", ["", "CPU ms", "% of a CPU", "ratio"], cells)


async def _seconds_of_poll(containers: int, messages: int, polls: int) -> float:
    """Return the CPU time of one poll, in seconds, after the rates are steady."""
    with tempfile.TemporaryDirectory(prefix="gt-") as name, ExitStack() as stack:
        node = _Node(Path(name), containers)
        await node.read_pods()
        sender = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        sender.setblocking(False)
        clock = count(1.0)

        def send() -> None:
            node.now = next(clock)
            for folder in node.folders:
                for _ in range(messages):
                    _send(sender, folder, node.now)

        warm_up = min(polls, 100)
        timed(node.measure, times=warm_up, before=send)
        cpu = timed(node.measure, times=polls, before=send).cpu
        node.sockets.close()
        return cpu


def _send(sender: socket.socket, folder: Path, now: float) -> None:
    message = {"v": 1, "run": "r", "steps": int(now) * _STEPS, "seconds": now}
    with suppress(BlockingIOError):
        sender.sendto(json.dumps(message).encode(), str(folder / "socket"))


class _Node:
    """The parts of the agent that measure, with one pod per GPU."""

    def __init__(self, directory: Path, pods: int) -> None:
        changes, metrics = ChangeSignal(), AgentMetrics()
        state, connection = GpuState(), ApiConnection(changes)
        health = dict.fromkeys(gpu.uuid for gpu in _TOPOLOGY.gpus)
        state.set_hardware(NodeHardware(_TOPOLOGY, health, None))
        self._source = _Pods({_pod(index).key: _pod(index) for index in range(pods)})
        self._pods = NodePods(self._source, connection, changes, silence_seconds=60)
        file = StateFile(directory / "usage.json")
        self._tracker = UsageTracker(self._pods, _NoProcesses(), file, metrics.record_failure)
        self.sockets = StepsSockets(directory / "steps", metrics.count_failure)
        sources = MeasureSources(state, connection, self._tracker, self.sockets)
        recorder = EventRecorder(_NoEvents(), "n1", metrics, changes)
        settings = AgentSettings(node="n1")
        self._connection = connection
        self._measurer = Measurer(settings, sources, recorder, metrics.steps, changes)
        opened = [self.sockets.open(ContainerKey(_pod(each).uid, "main")) for each in range(pods)]
        self.folders = [folder for folder in opened if folder is not None]
        self.now = 0.0

    async def read_pods(self) -> None:
        """Read the pods, as after the start of the agent."""
        self._connection.record_response()
        self._connection.record_pod_list()
        keys = [*self._source.pods]
        await self._pods.refresh(keys, 1.0)
        self._tracker.update_listed(
            [
                ListedPod(key, {"main": frozenset({gpu.uuid})})
                for key, gpu in zip(keys, _TOPOLOGY.gpus, strict=False)
            ]
        )

    def measure(self) -> None:
        """Poll once."""
        self._measurer.measure(self.now)


def _pod(index: int) -> PodView:
    return PodView(
        f"uid-{index}",
        ObjectKey("default", f"train-{index}"),
        node="n1",
        phase="Running",
        containers=(GpuContainer("main", 1),),
        annotations={PROFILE_ANNOTATION: "resnet50"},
    )


class _Pods:
    """The API server's pods; there are no changes."""

    def __init__(self, pods: dict[ObjectKey, PodView]) -> None:
        self.pods = pods

    async def find(self, name: str, namespace: str) -> PodView | None:
        return self.pods.get(ObjectKey(namespace, name))

    async def list(self) -> Listing[PodView]:
        return Listing([*self.pods.values()], "1")

    async def watch(self, _: str) -> AsyncGenerator[WatchEvent[PodView], None]:
        events: list[WatchEvent[PodView]] = []
        for event in events:
            yield event


class _NoProcesses:
    """No pod has ended, so the agent looks for no processes."""

    available = True

    def running(self, uids: Collection[str]) -> set[str]:
        return set(uids)


class _NoEvents:
    """Takes no events."""

    async def create_event(self, event: Document) -> None:
        raise NotImplementedError(event)
