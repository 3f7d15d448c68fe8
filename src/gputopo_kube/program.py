"""Runs a program of a node, with probes and metrics, until SIGTERM or SIGINT."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Protocol, TypeVar

from prometheus_client import CollectorRegistry, generate_latest

from gputopo.runtime.log import configure
from gputopo.runtime.settings import ProgramSettings, SettingsError
from gputopo_kube.client import AsyncClient, httpx_client
from gputopo_kube.probes import ProbeServer, Pulse


class NodeProgram(Protocol):
    """The loops of a program."""

    async def run(self) -> None:
        """Run until cancelled."""
        ...

    async def stop(self) -> None:
        """Prepare for the end, after a signal."""
        ...


class NodeSettings(Protocol):
    """The settings that each program of a node has."""

    @property
    def log_level(self) -> str:
        """Least level that is logged."""
        ...

    @property
    def api_timeout_seconds(self) -> float:
        """Time limit for a response of the API server."""
        ...

    @property
    def probes_host(self) -> str:
        """Address of livez, readyz and metrics."""
        ...

    @property
    def probes_port(self) -> int:
        """Port of livez, readyz and metrics."""
        ...


_Settings = TypeVar("_Settings", bound=ProgramSettings)


def load_settings(kind: type[_Settings]) -> _Settings:
    """Return the settings from the command line and the environment.

    An invalid setting ends the process with a message and exit status 1.
    """
    try:
        return kind.load(sys.argv[1:], os.environ)
    except SettingsError as error:
        sys.exit(f"{kind.program}: {error}")


def run_program(
    settings: NodeSettings,
    registry: CollectorRegistry,
    create: Callable[[AsyncClient, Pulse], NodeProgram],
) -> None:
    """Run a program until a signal, or until it ends itself.

    Args:
        settings: log level, time limit of the API server, address of the probes.
        registry: the metrics of the program.
        create: returns the program for a client of the API server and a pulse.
    """
    configure(settings.log_level, quiet=("httpx2", "httpcore2"))
    asyncio.run(_run_until_signal(settings, registry, create))


async def _run_until_signal(
    settings: NodeSettings,
    registry: CollectorRegistry,
    create: Callable[[AsyncClient, Pulse], NodeProgram],
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client, pulse = httpx_client(settings.api_timeout_seconds), Pulse()
    probes = ProbeServer(
        settings.probes_host,
        settings.probes_port,
        live=lambda: pulse.failure,
        ready=lambda: None if pulse.ready else "not ready",
        metrics=partial(generate_latest, registry),
    )
    async with client, asyncio.TaskGroup() as tasks:
        with closing(probes):
            program = create(client, pulse)
            running = tasks.create_task(program.run())
            stopping = tasks.create_task(stop.wait())
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await program.stop()
            running.cancel()
            stopping.cancel()
