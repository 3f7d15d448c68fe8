"""The HTTP server on a Unix socket, for the node agent."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from gputopo_mps.exclusive import NotPossibleError
from gputopo_mps.faults import FaultStore
from gputopo_mps.shared_gpu import SharedGpu
from gputopo_mps.supervisor import SharedGpus


@asynccontextmanager
async def serving(socket: Path, gpus: SharedGpus, faults: FaultStore) -> AsyncIterator[None]:
    """Serve requests while the context is open. Only root may connect."""
    routes = _Routes(gpus, faults)
    application = web.Application()
    application.add_routes(
        [
            web.get("/gpus", routes.list),
            web.put("/gpus/{uuid}", routes.start),
            web.delete("/gpus/{uuid}", routes.stop),
            web.delete("/faults/{id}", routes.acknowledge),
        ]
    )
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.UnixSite(runner, socket).start()
        os.chmod(socket, 0o600)  # noqa: PTH101 - Path.chmod would count as blocking
        yield
    finally:
        await runner.cleanup()


class _Routes:
    def __init__(self, gpus: SharedGpus, faults: FaultStore) -> None:
        self._gpus = gpus
        self._faults = faults

    async def list(self, _: web.Request) -> web.Response:
        """Return the shared GPUs and the faults."""
        found = [self._document(gpu) for gpu in self._gpus.all]
        faults = [each.model_dump(mode="json", by_alias=True) for each in self._faults.all()]
        return web.json_response({"gpus": found, "faults": faults})

    async def start(self, request: web.Request) -> web.Response:
        """Start MPS for a GPU."""
        try:
            gpu = await self._gpus.start(request.match_info["uuid"])
        except NotPossibleError as error:
            return web.json_response({"reason": str(error)}, status=409)
        return web.json_response(self._document(gpu))

    async def stop(self, request: web.Request) -> web.Response:
        """End MPS for a GPU."""
        uuid = request.match_info["uuid"]
        try:
            await self._gpus.stop(uuid)
        except NotPossibleError as error:
            return web.json_response({"reason": str(error)}, status=409)
        return web.json_response({"uuid": uuid})

    async def acknowledge(self, request: web.Request) -> web.Response:
        """Delete a fault."""
        existed = self._faults.acknowledge(request.match_info["id"])
        return web.json_response({}, status=200 if existed else 404)

    @staticmethod
    def _document(gpu: SharedGpu) -> dict[str, Any]:
        return {
            "uuid": gpu.folders.uuid,
            "state": gpu.state,
            "reason": gpu.reason,
            "pipeDirectory": str(gpu.folders.pipe),
            "shmDirectory": str(gpu.folders.shm),
            "serverPid": gpu.server,
            "clients": [
                {"pid": each.client.pid, "podUID": each.pod} for each in gpu.clients.current
            ],
            "memoryBytes": gpu.mode.memory_bytes,
            "podsAboveMemory": [
                {"podUID": each.pod, "usedBytes": each.used_bytes, "limitBytes": each.limit_bytes}
                for each in gpu.memory.exceeded
            ],
        }
