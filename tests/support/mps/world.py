"""A node for the component: simulated GPUs and MPS, pods at an API server, clients as processes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import aiohttp

from fakemps.memory import GpuFiles, ProcessFile
from fakenvml.render import render
from gputopo.api.names import RESOURCE
from gputopo.api.shares import share_resource
from gputopo.catalogue import named
from gputopo.topology.model import NodeTopology
from gputopo_kube.probes import Pulse
from gputopo_mps.component import MpsComponent
from gputopo_mps.metrics import MpsMetrics
from gputopo_mps.mounts import unmount
from gputopo_mps.settings import MpsSettings
from support.api.server import ApiServer, serving
from support.api.store import PODS, Document
from support.builders.objects import pod
from support.mps.daemons import find_daemons

NODE = "n1"
PATIENCE_SECONDS = 60.0
_CLIENT = Path(__file__).parents[3] / "tools/fakemps/client.py"
LIMIT = "0=1G"
SHARED_MEMORY = "8m"


def pod_uid(name: str) -> str:
    """Return a UID in the form of the API server."""
    return str(uuid5(NAMESPACE_DNS, name))


def sharing_pod(name: str, **metadata: Any) -> Document:
    """Return a pod of the node that requests a share."""
    amounts = {share_resource(RESOURCE): "1"}
    container = {"name": "main", "image": "busybox", "resources": {"limits": amounts}}
    document = pod(name, uid=pod_uid(name), node=NODE, containers=[container])
    document["metadata"].update(metadata)
    return document


@dataclass(slots=True)
class MpsWorld:
    """Everything around one component; ``component`` is the one that runs now."""

    topology: NodeTopology
    api: ApiServer
    settings: MpsSettings
    conf: Path
    metrics: MpsMetrics = field(default_factory=MpsMetrics)
    pulse: Pulse = field(default_factory=Pulse)
    component: MpsComponent | None = None
    _clients: list[subprocess.Popen[str]] = field(default_factory=list)
    _occupied: list[ProcessFile] = field(default_factory=list)

    @property
    def uuids(self) -> list[str]:
        """The GPUs by index."""
        return [gpu.uuid for gpu in self.topology.gpus]

    def configure(self, **settings: Any) -> None:
        """Change settings for components that start later."""
        self.settings = self.settings.model_copy(update=settings)

    def folder(self, index: int) -> Path:
        """Return the folder of a shared GPU."""
        return self.settings.run_dir / "gpus" / self.uuids[index]

    def mode(self, index: int) -> str:
        """Return the compute mode of a GPU as its number."""
        file = self.conf.parent / "compute.d" / self.uuids[index] / "mode"
        return file.read_text().strip() if file.exists() else "0"

    def set_mode(self, index: int, mode: str) -> None:
        """Change the compute mode, as an administrator does."""
        folder = self.conf.parent / "compute.d" / self.uuids[index]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mode").write_text(f"{mode}\n")

    def occupy(self, index: int, pid: int = 4321) -> ProcessFile:
        """Show a process that uses a GPU without MPS."""
        found = GpuFiles(self.conf.parent / "compute.d" / self.uuids[index]).register(pid, "C")
        self._occupied.append(found)
        return found

    def add_to_conf(self, line: str) -> None:
        """Add a line to the simulated NVML."""
        new = self.conf.with_suffix(".new")
        new.write_text(f"{self.conf.read_text()}{line}\n")
        new.replace(self.conf)

    def daemons(self, index: int) -> list[int]:
        """Return the PIDs of control daemon and server of a GPU."""
        return sorted(find_daemons(self.folder(index) / "pipe"))

    def start_client(
        self, index: int, name: str, *options: str, limit: str = LIMIT, ready: bool = True
    ) -> "subprocess.Popen[str]":
        """Start a process of a pod that uses a GPU through MPS; wait until it is connected."""
        environment = {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder(index) / "pipe"),
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": limit,
        }
        process = subprocess.Popen(
            [sys.executable, "-IS", str(_CLIENT), "--step=0.02", *options],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._clients.append(process)
        self.put_into_pod(process.pid, name)
        if ready:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line == "ready\n", line + process.stdout.read()
        return process

    async def end_of(self, process: "subprocess.Popen[str]") -> str:
        """Wait for the end of a client; return its output."""
        assert process.stdout is not None
        return await asyncio.to_thread(process.stdout.read)

    async def error_of(self, process: "subprocess.Popen[str]") -> int:
        """Wait for the end of a client and return the number of its error."""
        return int((await self.end_of(process)).splitlines()[-1])

    def put_into_pod(self, pid: int, name: str) -> None:
        """Write the cgroup of a process as kubelet with the systemd driver names it."""
        slice_name = f"kubepods-burstable-pod{pod_uid(name).replace('-', '_')}.slice"
        folder = self.settings.proc_dir / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        path = f"/kubepods.slice/kubepods-burstable.slice/{slice_name}/cri-containerd-1.scope"
        (folder / "cgroup").write_text(f"0::{path}\n")

    async def call(self, method: str, path: str) -> tuple[int, Any]:
        """Send a request to the component; return status and document."""
        connector = aiohttp.UnixConnector(path=str(self.settings.socket))
        async with (
            aiohttp.ClientSession("http://mps", connector=connector) as session,
            session.request(method, path) as response,
        ):
            return response.status, await response.json()

    async def share(self, index: int) -> Document:
        """Share a GPU."""
        status, document = await self.call("PUT", f"/gpus/{self.uuids[index]}")
        assert status == 200, document
        return dict(document)

    async def shared(self, index: int) -> Document:
        """Return a GPU of the list; empty if it is not listed."""
        _, document = await self.call("GET", "/gpus")
        found = [each for each in document["gpus"] if each["uuid"] == self.uuids[index]]
        return dict(found[0]) if found else {}

    async def faults(self) -> list[Document]:
        """Return the faults."""
        _, document = await self.call("GET", "/gpus")
        return list(document["faults"])

    async def until(self, reached: Callable[[], Any]) -> Any:
        """Wait until ``reached``, which may be a coroutine function, returns a true value."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            value = reached()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            assert time.monotonic() < end, "not reached"
            await asyncio.sleep(0.02)

    async def until_state(self, index: int, state: str) -> Document:
        """Wait until a GPU has this state."""

        async def reached() -> Document | None:
            found = await self.shared(index)
            return found if found.get("state") == state else None

        found: Document = await self.until(reached)
        return found

    async def until_clients(self, index: int, names: Sequence[str]) -> None:
        """Wait until the clients of these pods are listed, each once."""
        wanted = sorted(map(pod_uid, names))

        async def reached() -> bool:
            clients = (await self.shared(index)).get("clients", [])
            return sorted(each["podUID"] for each in clients) == wanted

        await self.until(reached)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the component in this process; at the end it is as if it had been killed."""
        async with self.api.client() as client:
            self.component = MpsComponent(self.settings, client, self.metrics, self.pulse)
            self.pulse.ready = False
            task = asyncio.create_task(self.component.run())
            try:
                await self.until(lambda: self.pulse.ready or task.done())
                yield
                assert not task.done(), task
            finally:
                task.cancel()
                await asyncio.wait({task})

    def put_pod(self, name: str, **metadata: Any) -> None:
        """Create or change a pod that shares a GPU."""
        self.api.put(PODS, sharing_pod(name, **metadata))

    def clean_up(self) -> None:
        """End all processes that belong to this world."""
        for process in self._clients:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        for each in self._occupied:
            each.file.close()
        pipes = [self.folder(index) / "pipe" for index in range(len(self.uuids))]
        passes_without = 0
        while passes_without < 2:  # a process has no command line for a moment after its start
            pids = [pid for pipe in pipes for pid in find_daemons(pipe)]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            passes_without = 0 if pids else passes_without + 1
            time.sleep(0.01)
        for pipe in pipes:
            unmount(pipe)
            unmount(pipe.with_name("shm"))


@asynccontextmanager
async def mps_world(
    directory: Path, library: Path, programs: Path, **settings: Any
) -> AsyncIterator[MpsWorld]:
    """Set up a node whose simulated driver is in ``directory``."""
    topology = named("dgx1-v100", node=NODE)
    conf = directory / "lib" / "topology.conf"
    conf.parent.mkdir()
    conf.write_text(render(topology))
    os.environ["FAKE_NVML_TOPOLOGY"] = str(conf)
    configured = {
        "node": NODE,
        "library_dir": library.parent,
        "control_program": str(programs),
        "run_dir": directory / "run",
        "proc_dir": directory / "proc",
        "check_seconds": 0.3,
        "shared_memory_size": SHARED_MEMORY if os.geteuid() == 0 else None,
        **settings,
    }
    api = ApiServer()
    async with serving(api):
        world = MpsWorld(topology, api, MpsSettings.model_validate(configured), conf)
        try:
            yield world
        finally:
            world.clean_up()
