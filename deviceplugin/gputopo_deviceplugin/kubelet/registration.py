"""Serves the agent's device-plugin socket, and keeps the agent registered with kubelet.

This module registers the agent again when kubelet restarts or removes the agent's socket.

Each registration has a new socket path. Since Kubernetes 1.37, kubelet rejects a path for which it
still has a connection. After the rejection it never deletes its record of this connection, so that
it would reject the path until its next restart (kubernetes #139338).
"""

import asyncio
import logging
import re
import secrets
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from gputopo.runtime.log import fields
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.pod_resources import CHANNEL_OPTIONS
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from gputopo_deviceplugin.kubelet.v1beta1.api_pb2_grpc import (
    DevicePluginServicer,
    RegistrationStub,
    add_DevicePluginServicer_to_server,
)

API_VERSION: Final = "v1beta1"

_CHECK_SECONDS: Final = 0.2
_REGISTER_SECONDS: Final = 5.0
_REJECTED_SECONDS: Final = 5.0
"""Pause after kubelet has rejected the registration. While kubelet is down, there is no pause."""

_UNWATCHED_CHECKS: Final = 50
"""After this many checks without a call of ListAndWatch, the agent registers again."""

_log = logging.getLogger(__name__)


def plugin_options(*, before_start: bool) -> api.DevicePluginOptions:
    """Return what kubelet calls; ``before_start`` adds PreStartContainer."""
    return api.DevicePluginOptions(
        get_preferred_allocation_available=True, pre_start_required=before_start
    )


def is_socket_of(name: str, file: str) -> bool:
    """Return whether a file name is that of a socket of this agent or of an earlier one.

    Agents of version 0.1 and older used the same path each time: without the hexadecimal digits.
    """
    return re.fullmatch(rf"{re.escape(name)}(-[0-9a-f]{{8}})?\.sock", file) is not None


class Registrar:
    """Serves a device plugin on a unix socket, and keeps the plugin registered with kubelet."""

    def __init__(
        self,
        plugin: DevicePluginServicer,
        gpus: GpuState,
        kubelet: KubeletState,
        *,
        plugin_dir: Path,
        resource: str,
        with_numa: bool = True,
        before_start: bool = False,
    ) -> None:
        """Register ``resource``.

        Args:
            plugin: serves it.
            gpus: whether and why the agent must not be registered.
            kubelet: records registrations.
            plugin_dir: folder of kubelet's socket and of the agent's.
            resource: name of the resource.
            with_numa: whether kubelet may get NUMA nodes of it.
            before_start: whether kubelet calls the plugin before each start of a container.
        """
        self._before_start = before_start
        self._with_numa = with_numa
        self._plugin = plugin
        self._gpus = gpus
        self._kubelet = kubelet
        self._resource = resource
        self._kubelet_socket = plugin_dir / "kubelet.sock"
        self._name = resource.replace("/", "-")
        self._socket = plugin_dir / f"{self._name}.sock"
        self._server: grpc.aio.Server | None = None
        self._sockets_registered: tuple[int, ...] | None = None
        self._unwatched_checks = 0
        self._failure: str | None = None

    async def run(self) -> None:
        """Serve and stay registered until cancelled."""
        try:
            while True:
                await self._check()
                await asyncio.sleep(_CHECK_SECONDS)
        finally:
            await self._stop()

    async def _check(self) -> None:
        if self._gpus.unregistered_reason is not None:
            await self._stop()
            return
        registered = self._kubelet.registered
        if registered and self._is_current():
            return
        if self._server is None or not self._socket.exists() or registered:
            await self._stop()
            await self._serve()
        await self._register()

    def _is_current(self) -> bool:
        """Return whether both sockets (agent, kubelet) are unchanged and ListAndWatch is open."""
        self._unwatched_checks = 0 if self._kubelet.watched else self._unwatched_checks + 1
        same = self._sockets_registered == self._identify_sockets()
        return same and self._unwatched_checks < _UNWATCHED_CHECKS

    def _identify_sockets(self) -> tuple[int, ...] | None:
        try:
            stats = [path.stat() for path in (self._kubelet_socket, self._socket)]
        except FileNotFoundError:
            return None
        return tuple(number for stat in stats for number in (stat.st_ino, stat.st_ctime_ns))

    async def _serve(self) -> None:
        server = grpc.aio.server()
        add_DevicePluginServicer_to_server(self._plugin, server)
        folder = self._socket.parent
        for path in folder.glob("*.sock"):
            if is_socket_of(self._name, path.name):
                path.unlink(missing_ok=True)  # the socket of an agent that has ended
        self._socket = folder / f"{self._name}-{secrets.token_hex(4)}.sock"
        server.add_insecure_port(f"unix:{self._socket}")
        await server.start()
        self._server = server

    async def _register(self) -> None:
        request = api.RegisterRequest(
            version=API_VERSION,
            endpoint=self._socket.name,
            resource_name=self._resource,
            options=plugin_options(before_start=self._before_start),
        )
        sockets = self._identify_sockets()
        # A kubelet that has just started may have another topologyManagerPolicy. While it is not
        # known, kubelet must not see NUMA nodes.
        if self._with_numa:
            self._gpus.report_numa({})
        try:
            async with grpc.aio.insecure_channel(
                f"unix:{self._kubelet_socket}", options=CHANNEL_OPTIONS
            ) as channel:
                await RegistrationStub(channel).Register(request, timeout=_REGISTER_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.details() != self._failure:
                self._failure = error.details()
                _log.warning(
                    "not registered with kubelet, trying again %s", fields(reason=self._failure)
                )
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                await asyncio.sleep(_REJECTED_SECONDS)
                await self._stop()  # kubelet may have a record of this socket path
            return
        self._failure = None
        self._sockets_registered = sockets
        self._unwatched_checks = 0
        self._kubelet.add_registration()
        _log.info("registered %s", fields(resource=self._resource, endpoint=self._socket.name))

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None
            if self._gpus.unregistered_reason is not None:
                _log.info("stopped serving %s", fields(reason=self._gpus.unregistered_reason))
        self._kubelet.registered = False
