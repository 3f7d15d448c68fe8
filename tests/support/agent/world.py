"""A node for the agent: fake GPUs under the real NVML binding, a kubelet, an API server."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from fakenvml.render import render
from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.catalogue import named
from gputopo.topology.model import NodeTopology
from gputopo_deviceplugin.agent import Agent
from gputopo_deviceplugin.kubelet.v1beta1.api_pb2 import ContainerAllocateResponse
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.probes import Pulse
from support.api.server import ApiServer, serving
from support.api.store import NODES, PODS, TOPOLOGIES, Document, key_of
from support.builders.objects import container, pod
from support.kubelet.server import FakeKubelet, running_kubelet

NODE = "n1"
PATIENCE_SECONDS = 120.0
HANG_LIMITS: dict[str, Any] = {"nvml_timeout_seconds": 1.0, "nvml_open_timeout_seconds": 2.0}
"""For tests of calls that hang only: elsewhere a busy machine must not look like such a call."""

_LOOK_SECONDS = 0.02
StartKubelet = Callable[[Path, str], AbstractAsyncContextManager[FakeKubelet]]


def pod_document(
    name: str,
    requests: Mapping[str, int],
    *,
    uid: str | None = None,
    annotation: str | None = None,
    init: Mapping[str, int] | None = None,
    sidecars: Collection[str] = (),
    node: str = NODE,
) -> Document:
    """Return a bound pod; ``requests`` has the number of GPUs of each container.

    Init containers named in ``sidecars`` keep running.
    """
    return pod(
        name,
        uid=uid or "",
        node=node,
        annotations={} if annotation is None else {GPUS_ANNOTATION: annotation},
        containers=[container(*request) for request in requests.items()],
        init_containers=[
            container(*request) | ({"restartPolicy": "Always"} if request[0] in sidecars else {})
            for request in (init or {}).items()
        ],
    )


def annotation_of(
    name: str, containers: Mapping[str, Sequence[str]], *, uid: str | None = None, node: str = NODE
) -> str:
    """Return the annotation that the extender writes to a pod."""
    placed = {key: list(uuids) for key, uuids in containers.items()}
    return json.dumps(
        {"v": 1, "uid": uid or f"uid-{name}", "node": node, "generation": 1, "containers": placed}
    )


@dataclass(slots=True)
class AgentWorld:
    """Everything around one agent."""

    topology: NodeTopology
    kubelet: FakeKubelet
    api: ApiServer
    settings: AgentSettings
    conf: Path
    pulse: Pulse
    metrics: AgentMetrics
    cgroups: Path

    @property
    def uuids(self) -> list[str]:
        """The GPUs by index."""
        return [gpu.uuid for gpu in self.topology.gpus]

    @property
    def status(self) -> Document:
        """The published status."""
        topology = self.api.get(TOPOLOGIES, NODE) or {}
        return dict(topology.get("status") or {})

    @property
    def is_published(self) -> bool:
        """Whether the GPUTopology exists."""
        return self.api.get(TOPOLOGIES, NODE) is not None

    @property
    def published(self) -> Document:
        """The GPUTopology."""
        found = self.api.get(TOPOLOGIES, NODE)
        assert found is not None, "no GPUTopology"
        return found

    @property
    def node_object(self) -> Document:
        """The Node."""
        found = self.api.get(NODES, NODE)
        assert found is not None, "no Node"
        return found

    def forget_status(self) -> None:
        """Remove the status of the GPUTopology without an event."""
        self.api.objects[key_of(TOPOLOGIES, NODE)].pop("status")

    def observed(self, index: int) -> Document:
        """Return a GPU of the status, empty before the first status."""
        gpus = self.status.get("gpus")
        return dict(gpus[index]) if gpus else {}

    def condition(self, kind: str) -> Document:
        """Return a published condition."""
        found = [entry for entry in self.status.get("conditions", []) if entry["type"] == kind]
        return dict(found[0]) if found else {}

    def events(self, reason: str) -> list[str]:
        """Return the messages of the events for this reason."""
        events = self.api.all("events")
        return [event["message"] for event in events if event["reason"] == reason]

    async def place(
        self, name: str, containers: Mapping[str, Sequence[int]], *, uid: str | None = None
    ) -> None:
        """Bind a pod with these GPUs, as the extender does; ``uid`` by default from the name."""
        gpus = {
            key: [self.uuids[index] for index in value]
            for key, value in containers.items()
            if value
        }
        requests = {key: len(value) for key, value in containers.items()}
        annotation = annotation_of(name, gpus, uid=uid)
        document = pod_document(name, requests, uid=uid, annotation=annotation)
        self.api.put(PODS, document)

    async def run(
        self, name: str, containers: Mapping[str, Sequence[int]]
    ) -> dict[str, ContainerAllocateResponse]:
        """Place a pod and let kubelet admit it."""
        await self.place(name, containers)
        requests = {key: len(value) for key, value in containers.items()}
        return await self.kubelet.admit(("default", name), requests)

    async def set_phase(self, name: str, phase: str) -> None:
        """Change the phase of a pod."""
        pod = self.api.pod(name)
        self.api.put(PODS, {**pod, "status": {"phase": phase}})

    def start_processes(self, uid: str) -> None:
        """Start processes of a pod, in its cgroup of version 1."""
        folder = self.cgroups / "pids/kubepods/burstable" / f"pod{uid}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pids.current").write_text("3\n")

    def end_processes(self, uid: str) -> None:
        """End all processes of a pod; kubelet removes its cgroup later."""
        (self.cgroups / "pids/kubepods/burstable" / f"pod{uid}" / "pids.current").write_text("0\n")

    async def force_delete(self, name: str) -> None:
        """Delete a pod without grace: kubelet no longer lists it."""
        self.api.delete(PODS, name)
        self.kubelet.end(("default", name))

    def break_gpus(self, *lines: str) -> None:
        """Write the topology file again with these lines at its end."""
        new = self.conf.with_suffix(".new")
        new.write_text(render(self.topology) + "".join(f"{line}\n" for line in lines))
        new.rename(self.conf)

    async def until(self, holds: Callable[[], object]) -> None:
        """Return when ``holds`` is true; fail after a timeout."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():  # noqa: ASYNC110 - what it looks at is another program's
                await asyncio.sleep(_LOOK_SECONDS)

    async def quiet(self, seconds: float = 2.0) -> None:
        """Return when nothing was written for this time; fail if the writes do not end.

        It counts looks and not seconds: after a stall of this process, the agent has its time too.
        """
        before, looks = len(self.api.writes), 0

        def unchanged() -> bool:
            nonlocal before, looks
            writes = len(self.api.writes)
            looks = looks + 1 if writes == before else 0
            before = writes
            return looks * _LOOK_SECONDS >= seconds

        await self.until(unchanged)

    async def served(self) -> None:
        """Return when kubelet has all GPUs and the object shows it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.kubelet.wait_for_devices(dict.fromkeys(self.uuids, "Healthy"))
        await self.until(lambda: self.condition("Ready").get("status") == "True")
        await self.until(lambda: self.condition("GPUsHealthy").get("status") == "True")
        await self.until(lambda: self.settings.counters == "Off" or self.status.get("counters"))

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        """Run the agent; an error of its own fails the test."""
        async with self.api.client() as client:
            agent = Agent(self.settings, client, self.metrics, self.pulse)
            task = asyncio.create_task(agent.run())
            try:
                yield agent
            finally:
                task.cancel()
                [outcome] = await asyncio.gather(task, return_exceptions=True)
                if not isinstance(outcome, asyncio.CancelledError):
                    raise AssertionError("the agent ended by itself") from outcome  # noqa: TRY004


def _end_nvml_sessions() -> None:
    """End sessions that an earlier test of this process left open: NVML would keep its GPUs."""
    with suppress(pynvml.NVMLError):
        while True:
            pynvml.nvmlShutdown()


@asynccontextmanager
async def agent_world(
    directory: Path,
    library_dir: Path,
    name: str = "dgx1-v100",
    *,
    start_kubelet: StartKubelet = running_kubelet,
    **settings: Any,
) -> AsyncIterator[AgentWorld]:
    """Run the fakes of a node; its sockets are in ``directory``."""
    _end_nvml_sessions()
    topology = named(name, node=NODE)
    conf = directory / "topology.conf"
    conf.write_text(render(topology))
    os.environ["FAKE_NVML_TOPOLOGY"] = str(conf)
    cgroups = directory / "cgroup"
    (cgroups / "pids/kubepods/burstable").mkdir(parents=True)
    devices = directory / "dev"
    devices.mkdir()
    for control in ("nvidiactl", "nvidia-uvm"):
        (devices / control).touch()
    api = ApiServer()
    api.put(NODES, {"kind": "Node", "metadata": {"name": NODE, "uid": "uid-node"}})
    async with serving(api), start_kubelet(directory, RESOURCE) as kubelet:
        configured = {
            "node": NODE,
            "library_dir": library_dir,
            "device_dir": devices,
            "system_dir": directory / "sys",
            "cgroup_dir": cgroups,
            "state_dir": directory / "state",
            "plugin_dir": kubelet.plugin_dir,
            "pod_resources_socket": kubelet.socket,
            "admission_timeout_seconds": 15.0,
            "health_seconds": 0.2,
            "retry_seconds": 0.2,
            "observe_seconds": 0.2,
            "resync_seconds": 0.3,
            "xid_quiet_seconds": 0.7,
            "nvml_timeout_seconds": PATIENCE_SECONDS,
            "nvml_open_timeout_seconds": PATIENCE_SECONDS,
            "drain_seconds": 0.5,
            **settings,
        }
        yield AgentWorld(
            topology=topology,
            kubelet=kubelet,
            api=api,
            settings=AgentSettings.model_validate(configured),
            conf=conf,
            pulse=Pulse(),
            metrics=AgentMetrics(),
            cgroups=cgroups,
        )
