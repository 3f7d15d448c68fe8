"""The program ``gputopo-extender``, which runs until SIGTERM or SIGINT."""

import asyncio
import logging
import signal

import uvloop

from gputopo.runtime.log import configure
from gputopo_extender.server import running
from gputopo_extender.settings import ExtenderSettings
from gputopo_kube.aiohttp_transport import aiohttp_client
from gputopo_kube.program import load_settings

_log = logging.getLogger(__name__)


def main() -> None:
    """Run the extender. An invalid setting ends the process with a message and exit status 1."""
    settings = load_settings(ExtenderSettings)
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
