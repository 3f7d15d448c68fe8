"""Runs the loops that measure, so that an error in a loop does not end the agent."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

RESTART_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


async def run_isolated(
    run: Callable[[], Awaitable[None]], on_failure: Callable[[str], None]
) -> None:
    """Run a loop until cancelled, and start the loop again after each error.

    The loops handle all expected errors. But they parse data of users. An unexpected error would
    end the agent, and no container on the node could get GPUs.
    """
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001 - any error, see above
            _log.exception("measuring failed, trying again")
            on_failure("measure")
        await asyncio.sleep(RESTART_SECONDS)
