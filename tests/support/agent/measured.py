"""A node whose containers report their steps, in virtual time and over real Unix sockets."""

import asyncio
import json
import random
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from gputopo.api.names import (
    PLACEMENT_ANNOTATION,
    PROFILE_ANNOTATION,
    STEPS_DIRECTORY,
)
from gputopo.api.profile import Measurement, NodeSample
from gputopo.catalogue import named
from gputopo_deviceplugin.measure.log_reader import LogReader
from gputopo_deviceplugin.measure.measurer import Measurer, MeasureSources
from gputopo_deviceplugin.measure.scraper import MetricsScraper
from gputopo_deviceplugin.measure.sockets import StepsSockets
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.document import ObjectKey
from gputopo_kube.endpoint import EndpointError
from support.agent.in_process import AgentInProcess, PluginInProcess, PodsOfApiServer, Processes
from support.agent.world import NODE, annotation_of, pod_document
from support.kubelet.device_manager import DeviceManager
from support.virtual_time import runner

Document = dict[str, Any]
TOPOLOGY = named("dgx1-v100", node=NODE)
UUIDS: list[str] = [gpu.uuid for gpu in TOPOLOGY.gpus]
PLACEMENT = {
    "v": 1,
    "policy": "preserve",
    "pattern": "Ring",
    "sensitive": True,
    "reason": "test",
    "aggregateMBps": 1,
    "preservedMBps": 1,
    "physicalMBps": 40_000,
    "physicalWorstMBps": 8_000,
    "physicalBestMBps": 48_000,
}


class Sender:
    """A process of a container that reports its steps, as the ``gputopo-steps`` package does."""

    def __init__(self, folder: Path, run: str = "run") -> None:
        self._path = folder / "socket"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._random = random.Random(1)  # noqa: S311 - repeatable noise
        self.run = run
        self.steps = 0
        self.lost = 0

    def send(self, datagram: bytes) -> None:
        """Send a datagram, or lose it if the queue is full or the agent is down."""
        try:
            self._socket.sendto(datagram, str(self._path))
        except (BlockingIOError, ConnectionRefusedError, FileNotFoundError):
            self.lost += 1

    def report(self) -> None:
        """Send the number of steps."""
        seconds = asyncio.get_running_loop().time() + 7.0
        message = {"v": 1, "run": self.run, "steps": self.steps, "seconds": seconds}
        self.send(json.dumps(message).encode())

    async def train(self, rate: float, seconds: float, *, noise: float = 0.01) -> None:
        """Train at ``rate`` steps per second; report with the first step of each second."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while clock() < end:
            waited = 0.0
            while waited < 1.0:
                waited += self._random.gauss(1, noise) / rate
                self.steps += 1
            await asyncio.sleep(waited)
            self.report()

    def close(self) -> None:
        """Close the sender's end."""
        self._socket.close()


class Endpoints:
    """HTTP endpoints of pods.

    Attributes:
        texts: the response by URL, or the error.
        requests: the requested URLs.
        delay_seconds: time until a response.
    """

    def __init__(self) -> None:
        self.delay_seconds = 0.0
        self.texts: dict[str, bytes | EndpointError] = {}
        self.requests: list[str] = []

    async def read(self, url: str) -> bytes:
        """Return the text of an endpoint."""
        self.requests.append(url)
        await asyncio.sleep(self.delay_seconds)
        text = self.texts.get(url, EndpointError(f"{url}: connection refused"))
        if isinstance(text, EndpointError):
            raise text
        return text


class MeasuredNode:
    """One node: its API server, kubelet, processes, and the agent's parts that measure."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.settings = AgentSettings(node=NODE, state_dir=directory, **settings)
        self.server, self.manager, self.processes = PodsOfApiServer(), DeviceManager(), Processes()
        self.manager.devices = dict.fromkeys(UUIDS, "Healthy")
        self.metrics, self.endpoints = AgentMetrics(), Endpoints()
        self._senders: list[Sender] = []
        self.build_agent()

    def build_agent(self) -> None:
        """Make a new agent; only files, kubelet and API server keep their state."""
        failed = self.metrics.count_failure
        self.sockets = StepsSockets(self.settings.state_dir / "steps", failed)
        self.agent = AgentInProcess(
            TOPOLOGY, self.server, self.manager, processes=self.processes, folders=self.sockets
        )
        self.manager.plugin = PluginInProcess(self.agent.plugin, lambda: None)
        agent = self.agent
        sources = MeasureSources(agent.current, agent.connection, agent.tracker, self.sockets)
        self.measurer = Measurer(
            self.settings, sources, agent.recorder, self.metrics.steps, agent.changes
        )

    async def start(self) -> None:
        """Start the agent."""
        self.agent.connection.record_response()
        self.sockets.open_again()
        await self.agent.start()
        await self.agent.observer.observe()
        loops = [self.measurer.run()]
        loops.append(MetricsScraper(self.endpoints, self.measurer, self.metrics.steps).run())
        if (logs := self.settings.pod_logs_dir) is not None:
            loops.append(LogReader(self.measurer, logs, self.metrics.steps).run())
        self._loops = [asyncio.create_task(loop) for loop in loops]

    async def stop(self) -> None:
        """Stop the agent; an error in one of its loops fails the test."""
        assert not any(loop.done() for loop in self._loops), self._loops
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self.sockets.close()
        await self.agent.stop()

    async def restart(self) -> None:
        """Replace the agent by a new one."""
        await self.stop()
        self.build_agent()
        await self.start()

    def close(self) -> None:
        """Close the senders."""
        for sender in self._senders:
            sender.close()

    async def run_pod(
        self,
        name: str,
        gpus: Mapping[str, Sequence[int]],
        *,
        profile: str | None = "resnet50",
        annotations: Mapping[str, str] | None = None,
        **kubelet: Any,
    ) -> dict[str, Path | None]:
        """Run a pod; return the folder of each container's socket, None without one.

        ``gpus`` has the indices of each container's GPUs; ``kubelet`` are init containers.
        """
        given = {key: [UUIDS[index] for index in indices] for key, indices in gpus.items()}
        init = kubelet.get("init", {})
        requests = {key: len(indices) for key, indices in gpus.items() if key not in init}
        document = pod_document(name, requests, annotation=annotation_of(name, given), **kubelet)
        document["metadata"]["annotations"] |= {
            PLACEMENT_ANNOTATION: json.dumps(PLACEMENT),
            **({} if profile is None else {PROFILE_ANNOTATION: profile}),
            **(annotations or {}),
        }
        document["status"] = {"phase": "Running", "podIP": "10.0.0.7"}
        self.server.put(document)
        replies = await self.manager.admit(("default", name), requests, **kubelet)
        self.processes.pods.add(f"uid-{name}")
        await self.agent.observer.observe()
        return {container: _folder(reply) for container, reply in replies.items()}

    async def sender(self, name: str, gpus: Sequence[int], **pod: Any) -> Sender:
        """Run a pod with one container, and return the sender in it."""
        folder = (await self.run_pod(name, {"main": gpus}, **pod))["main"]
        assert folder is not None
        return self.new_sender(folder)

    def new_sender(self, folder: Path, run: str = "run") -> Sender:
        """Return a further process of a container."""
        self._senders.append(Sender(folder, run))
        return self._senders[-1]

    def change(self, name: str, **parts: Document) -> None:
        """Change parts of a pod, for example its ``status``."""
        document = self.server.pods[ObjectKey("default", name)]
        self.server.put(
            {
                key: {**value, **parts.get(key, {})} if isinstance(value, dict) else value
                for key, value in document.items()
            }
        )

    async def end_pod(self, name: str, *, processes_end: bool = True) -> None:
        """End a pod: kubelet no longer lists it, and it is deleted."""
        self.server.delete(ObjectKey("default", name))
        self.manager.end(("default", name))
        if processes_end:
            self.processes.pods.discard(f"uid-{name}")
        await self.agent.observer.observe()

    @property
    def measurements(self) -> dict[str, Measurement]:
        """The published measurements by name of the pod."""
        published = self.measurer.published
        return {each.pod: each for each in published.measurements} if published else {}

    @property
    def samples(self) -> list[NodeSample]:
        """The published samples."""
        published = self.measurer.published
        return [*published.samples] if published else []

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels)


def in_virtual_time(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test between start and stop of the agent of its ``node``, without waiting."""

    @wraps(scenario)
    def test(node: MeasuredNode, **fixtures: Any) -> None:
        async def run() -> None:
            await node.start()
            await scenario(node, **fixtures)
            await node.stop()

        with runner() as loop:
            loop.run(run())

    return test


def _folder(reply: Any) -> Path | None:
    mounts = {mount.container_path: mount for mount in reply.mounts}
    mount = mounts.get(STEPS_DIRECTORY)
    if mount is None:
        assert "GPUTOPO_STEPS_SOCKET" not in reply.envs
        return None
    assert mount.read_only
    assert reply.envs["GPUTOPO_STEPS_SOCKET"] == f"{STEPS_DIRECTORY}/socket"
    return Path(mount.host_path)
