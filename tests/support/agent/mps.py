"""A stand-in for the component that runs MPS on a node: its HTTP protocol on a unix socket.

It has the folders of the GPUs too, with the control sockets of the daemons.
"""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

Document = dict[str, Any]


class FakeMps:
    """The daemons of the node's GPUs.

    Attributes:
        gpus: the GPUs with daemons, as the component lists them.
        faults: the faults that were not acknowledged.
        no_start: why the daemon of a GPU does not start, by UUID.
        no_end: why it does not end.
        slow_starts: when the start of a daemon goes on, by UUID.
        broken: whether each request fails with status 500.
        broken_acknowledge: whether this request does.
        responds: whether the list and the ends are responded to now.
        raw: the body of all responses; None for the true ones.
        requests: the requests, except those for the list.
        lists: number of requests for the list.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.gpus: dict[str, Document] = {}
        self.faults: list[Document] = []
        self.no_start: dict[str, str] = {}
        self.no_end: dict[str, str] = {}
        self.slow_starts: dict[str, asyncio.Event] = {}
        self.broken = False
        self.broken_acknowledge = False
        self.responds = asyncio.Event()
        self.responds.set()
        self.raw: str | None = None
        self.requests: list[str] = []
        self.lists = 0
        self._processes: dict[str, socket.socket] = {}
        self._runner: web.AppRunner | None = None

    @property
    def socket(self) -> Path:
        return self.directory / "mps.sock"

    def folder(self, uuid: str) -> Path:
        """Return the folder of a GPU; it exists while only MPS can use the GPU."""
        return self.directory / "gpus" / uuid

    async def open(self) -> None:
        """Start the component; its daemons are as before."""
        application = web.Application()
        application.add_routes(
            [
                web.get("/gpus", self.list),
                web.put("/gpus/{uuid}", self.start),
                web.delete("/gpus/{uuid}", self.stop),
                web.delete("/faults/{id}", self.acknowledge),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        self.socket.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.socket))
        await web.SockSite(self._runner, self._listener).start()

    async def end(self) -> None:
        """End the component as a kill does: its daemons go on."""
        if self._runner is not None:
            # asyncio loses a connection that it has accepted when its server closes before the
            # next turn of the loop. So it accepts no more, and a few turns later it has none.
            asyncio.get_running_loop().remove_reader(self._listener)
            for _ in range(10):
                await asyncio.sleep(0)
            await self._runner.cleanup()
            self._runner = None

    def end_daemon(self, uuid: str) -> None:
        """End the process of a daemon; its folder stays."""
        self._processes.pop(uuid).close()

    def serve(self, uuid: str, state: str = "Ready", reason: str = "") -> None:
        """Let a GPU have a daemon in this state."""
        self.gpus[uuid] = {
            "uuid": uuid,
            "state": state,
            "reason": reason,
            "pipeDirectory": f"/run/gputopo-mps/gpus/{uuid}/pipe",
            "shmDirectory": f"/run/gputopo-mps/gpus/{uuid}/shm",
            "serverPid": None,
            "clients": [],
            "memoryBytes": 16 * 2**30,
        }
        if uuid not in self._processes:
            control = self.folder(uuid) / "pipe" / "control"
            control.parent.mkdir(parents=True, exist_ok=True)
            control.unlink(missing_ok=True)
            (self.folder(uuid) / "shm").mkdir(exist_ok=True)
            self._processes[uuid] = listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(control))
            listener.listen(64)
        (self.folder(uuid) / "state.json").touch()

    def close(self) -> None:
        """End all daemons."""
        for uuid in [*self._processes]:
            self.end_daemon(uuid)

    def fault(self, number: int, uuid: str, *pods: str, cause: str | None = None) -> None:
        """Add a fatal fault that ended the clients of these pods."""
        self.faults.append(
            {
                "id": f"fault-{number}",
                "uuid": uuid,
                "at": "2026-01-01T00:00:00Z",
                "causePodUID": cause,
                "podUIDs": list(pods),
                "message": f"Xid {number}",
            }
        )

    async def list(self, _: web.Request) -> web.StreamResponse:
        self.lists += 1
        found = {"gpus": [*self.gpus.values()], "faults": [*self.faults]}
        await self.responds.wait()
        return self._response(found)

    async def start(self, request: web.Request) -> web.StreamResponse:
        uuid = self._record(request)
        if uuid in self.slow_starts:
            self.serve(uuid, "Starting")
            await self.slow_starts[uuid].wait()
            self.serve(uuid)
        if uuid in self.no_start:
            return self._response({"reason": self.no_start[uuid]}, 409)
        if uuid not in self.gpus and not self.broken:
            self.serve(uuid)
        return self._response(self.gpus.get(uuid, {}))

    async def stop(self, request: web.Request) -> web.StreamResponse:
        uuid = self._record(request)
        await self.responds.wait()
        if uuid in self.no_end:
            return self._response({"reason": self.no_end[uuid]}, 409)
        if self.gpus.pop(uuid, None) is not None:
            self.end_daemon(uuid)
        shutil.rmtree(self.folder(uuid), ignore_errors=True)
        return self._response({"uuid": uuid})

    async def acknowledge(self, request: web.Request) -> web.StreamResponse:
        known = self._record(request)
        if self.broken_acknowledge:
            return web.Response(status=503, text="the disk is full")
        left = [each for each in self.faults if each["id"] != known]
        found, self.faults = len(left) < len(self.faults), left
        return self._response({}, 200 if found else 404)

    def _record(self, request: web.Request) -> str:
        self.requests.append(f"{request.method} {request.path}")
        return request.path.rpartition("/")[2]

    def _response(self, document: Document, status: int = 200) -> web.StreamResponse:
        if self.broken:
            return web.Response(status=500, text="broken")
        if self.raw is not None:
            return web.Response(status=status, text=self.raw)
        return web.json_response(document, status=status)


@asynccontextmanager
async def serving_mps(directory: Path) -> AsyncIterator[FakeMps]:
    """Serve the protocol on ``mps.sock`` of ``directory``, which must be short."""
    mps = FakeMps(directory)
    await mps.open()
    try:
        yield mps
    finally:
        await mps.end()
        mps.close()
