"""Keeps the agent registered with kubelet: serves first, registers second.

And again whenever kubelet started anew or dropped the agent's socket.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from gputopo.runtime.log import fields
from gputopo_deviceplugin.admit.service import OPTIONS, GpuDevicePlugin
from gputopo_deviceplugin.kubelet.pod_resources import CHANNEL_OPTIONS
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from gputopo_deviceplugin.kubelet.v1beta1.api_pb2_grpc import (
    RegistrationStub,
    add_DevicePluginServicer_to_server,
)

API_VERSION: Final = "v1beta1"
_LOOK_SECONDS: Final = 0.2
_REGISTER_SECONDS: Final = 5.0
_REFUSED_SECONDS: Final = 5.0
"""Pause after a kubelet that is there has said no; one that is not there yet is awaited."""

_UNWATCHED_LOOKS: Final = 50
"""Kubelet listens to ListAndWatch right after a registration; one that stopped has dropped us."""

_log = logging.getLogger(__name__)


class Registrar:
    """The agent's socket and its registration.

    Attributes:
        registered: whether kubelet knows the agent now.
        registrations: how often it was registered.
        refusal: why this node's GPUs must not be served, None where they may be.
    """

    def __init__(
        self,
        servicer: GpuDevicePlugin,
        *,
        plugin_dir: Path,
        resource: str,
        on_registration: Callable[[], None],
    ) -> None:
        """Serve ``servicer`` in kubelet's ``plugin_dir`` as the plugin of ``resource``."""
        self._servicer = servicer
        self._resource = resource
        self._on_registration = on_registration
        self._kubelet = plugin_dir / "kubelet.sock"
        self._endpoint = f"{resource.replace('/', '-')}.sock"
        self._socket = plugin_dir / self._endpoint
        self._server: grpc.aio.Server | None = None
        self._served: tuple[int, ...] | None = None
        self._unwatched = 0
        self._failure: str | None = None
        self.registered = False
        self.registrations = 0
        self.refusal: str | None = "not known yet whether this node has GPUs to serve"

    @property
    def heard(self) -> bool:
        """Whether kubelet listens to what is served: one that died or dropped us does not."""
        return self._servicer.watchers > 0

    @property
    def heard_seconds(self) -> float:
        """How long kubelet has been listening without a break."""
        return self._servicer.watched_seconds

    async def run(self) -> None:
        """Serve and stay registered until cancelled."""
        try:
            while True:
                await self._look()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await self._stop()

    async def _look(self) -> None:
        if self.refusal is not None:
            await self._stop()
            return
        if self.registered and self._in_order():
            return
        if self._server is None or not self._socket.exists() or self.registered:
            await self._stop()
            await self._serve()
        await self._register()

    def _in_order(self) -> bool:
        """Return whether kubelet and both sockets are those of the last registration."""
        self._unwatched = 0 if self.heard else self._unwatched + 1
        return self._served == self._identities() and self._unwatched < _UNWATCHED_LOOKS

    def _identities(self) -> tuple[int, ...] | None:
        try:
            stats = [path.stat() for path in (self._kubelet, self._socket)]
        except FileNotFoundError:
            return None
        return tuple(number for stat in stats for number in (stat.st_ino, stat.st_ctime_ns))

    async def _serve(self) -> None:
        server = grpc.aio.server()
        add_DevicePluginServicer_to_server(self._servicer, server)
        self._socket.unlink(missing_ok=True)  # an earlier agent's, which nobody serves
        server.add_insecure_port(f"unix:{self._socket}")
        await server.start()
        self._server = server

    async def _register(self) -> None:
        request = api.RegisterRequest(
            version=API_VERSION,
            endpoint=self._endpoint,
            resource_name=self._resource,
            options=OPTIONS,
        )
        identities = self._identities()
        try:
            async with grpc.aio.insecure_channel(
                f"unix:{self._kubelet}", options=CHANNEL_OPTIONS
            ) as channel:
                await RegistrationStub(channel).Register(request, timeout=_REGISTER_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.details() != self._failure:
                self._failure = error.details()
                _log.warning("not registered, trying again %s", fields(reason=self._failure))
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                await asyncio.sleep(_REFUSED_SECONDS)
            return
        self._failure = None
        self._served = identities
        self._unwatched = 0
        self.registered = True
        self.registrations += 1
        self._on_registration()
        _log.info("registered %s", fields(resource=self._resource, endpoint=self._endpoint))

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None
            _log.info("stopped serving %s", fields(reason=self.refusal))
        self.registered = False
