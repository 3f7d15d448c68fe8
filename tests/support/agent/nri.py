"""Containers of a container runtime, and the runtime side of NRI that containerd uses."""

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gputopo.api.names import GPUS_ANNOTATION
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api
from localcluster.settings import paths_from_environment
from nrioracle.build import ensure

PATIENCE_SECONDS = 60.0


def sandbox(
    name: str, containers: Mapping[str, Sequence[str]], uid: str | None = None
) -> api.PodSandbox:
    """Return a pod whose containers got these GPUs; ``uid`` is the one of the annotation."""
    own = f"uid-{name}"
    annotation = {"v": 1, "uid": uid or own, "node": "n1", "generation": 1, "containers": {}}
    annotation["containers"] = {key: list(uuids) for key, uuids in containers.items()}
    return api.PodSandbox(
        id=f"sandbox-{name}",
        name=name,
        uid=own,
        namespace="default",
        annotations={GPUS_ANNOTATION: json.dumps(annotation)} if containers else {},
    )


def in_runtime(
    pod: api.PodSandbox,
    name: str = "main",
    *,
    instance: str | None = None,
    milli: int = 0,
    cpus: str = "",
    env: Sequence[str] = (),
    created_at: int = 0,
    state: api.ContainerState = api.CONTAINER_RUNNING,
) -> api.Container:
    """Return a container of the pod that requests ``milli`` thousandths of a CPU."""
    shares = api.OptionalUInt64(value=max(milli * 1024 // 1000, 2))
    cpu = api.LinuxCPU(shares=shares, cpus=cpus)
    return api.Container(
        id=instance or f"{pod.name}-{name}",
        pod_sandbox_id=pod.id,
        name=name,
        state=state,
        env=env,
        linux=api.LinuxContainer(resources=api.LinuxResources(cpu=cpu)),
        created_at=created_at,
    )


class NriRuntime:
    """A running container runtime, as far as NRI is concerned."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._replies: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._parsing = asyncio.create_task(self._read())

    async def do(
        self,
        command: str,
        pod: api.PodSandbox | None = None,
        container: api.Container | None = None,
        **more: int,
    ) -> dict[str, Any]:
        """Carry out a command of ``tools/nrioracle/main.go``, and return its result."""
        request: dict[str, Any] = {"do": command, **more}
        if pod is not None:
            request["pod"] = base64.b64encode(pod.SerializeToString()).decode()
        if container is not None:
            request["container"] = base64.b64encode(container.SerializeToString()).decode()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._replies.get()

    async def synchronized(self) -> dict[str, Any]:
        """Wait for the next plugin that was synchronized, and return its updates."""
        return await self._next("synchronized")

    async def updated(self) -> dict[str, Any]:
        """Wait until the plugin updates containers without an event, and return the updates."""
        return await self._next("updated")

    async def _next(self, event: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            found = await self._events.get()
        assert found["event"] == event
        return found

    async def end(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._parsing

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            reply = json.loads(line)
            await (self._events if "event" in reply else self._replies).put(reply)


@asynccontextmanager
async def nri_runtime(socket: Path) -> AsyncIterator[NriRuntime]:
    """Run a container runtime that listens at ``socket``."""
    oracle = ensure(paths_from_environment(os.environ))
    with (socket.parent / "runtime.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            oracle,
            socket,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=2**24,
        )
    runtime = NriRuntime(process)
    try:
        yield runtime
    finally:
        await runtime.end()
