"""The program ``gputopo-extender``, which runs until SIGTERM or SIGINT."""

import asyncio
import logging
import os
import signal
import sys

import uvloop

from gputopo.runtime.log import configure
from gputopo.runtime.settings import SettingsError
from gputopo_extender.server import running
from gputopo_extender.settings import ExtenderSettings
from gputopo_kube.aiohttp_transport import aiohttp_client

_log = logging.getLogger(__name__)


def main() -> None:
    """Run the extender. If a setting is invalid, print a message and exit with status 1."""
    try:
        settings = ExtenderSettings.load(sys.argv[1:], os.environ)
    except SettingsError as error:
        sys.exit(f"{ExtenderSettings.program}: {error}")
    configure(settings.log_level, quiet=("aiohttp", "httpx2", "httpcore2"))
    uvloop.run(_run_until_signal(settings))


async def _run_until_signal(settings: ExtenderSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with aiohttp_client() as client, running(settings, client):
        await stop.wait()
    _log.info("stopped")


if __name__ == "__main__":
    main()
