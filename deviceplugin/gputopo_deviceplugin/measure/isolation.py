"""Isolates the loops that measure: an error in one of them must not end the agent."""

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

    The loops handle all expected errors. But they parse data of users, and an unexpected error
    would end the agent, which then gives no container its GPUs.
    """
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001 - any error, see above
            _log.exception("measuring failed, trying again")
            on_failure("measure")
        await asyncio.sleep(RESTART_SECONDS)
