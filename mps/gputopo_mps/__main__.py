"""Runs the component until SIGTERM or SIGINT."""

import asyncio
import os
import signal
import sys
from contextlib import closing
from functools import partial

from prometheus_client import generate_latest

from gputopo.runtime.log import configure
from gputopo.runtime.settings import SettingsError
from gputopo_kube.client import httpx_client
from gputopo_kube.probes import ProbeServer, Pulse
from gputopo_mps.component import MpsComponent
from gputopo_mps.metrics import MpsMetrics
from gputopo_mps.settings import MpsSettings


def main() -> None:
    """Run the component. An invalid setting ends the process with a message and status 1."""
    try:
        settings = MpsSettings.load(sys.argv[1:], os.environ)
    except SettingsError as error:
        sys.exit(f"{MpsSettings.program}: {error}")
    configure(settings.log_level, quiet=("httpx2", "httpcore2"))
    asyncio.run(_run_until_signal(settings))


async def _run_until_signal(settings: MpsSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client = httpx_client(settings.api_timeout_seconds)
    metrics, pulse = MpsMetrics(), Pulse()
    probes = ProbeServer(
        settings.probes_host,
        settings.probes_port,
        live=lambda: pulse.failure,
        ready=lambda: None if pulse.ready else "not ready",
        metrics=partial(generate_latest, metrics.registry),
    )
    async with client, asyncio.TaskGroup() as tasks:
        with closing(probes):
            component = MpsComponent(settings, client, metrics, pulse)
            running = tasks.create_task(component.run())
            stopping = tasks.create_task(stop.wait())
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await component.stop()
            running.cancel()
            stopping.cancel()


if __name__ == "__main__":
    main()
