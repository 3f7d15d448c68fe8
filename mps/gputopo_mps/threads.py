"""Calls that block, and can hang, with a time limit."""

import asyncio
from collections.abc import Callable

from gputopo_kube.daemon_thread import Value, call_in_daemon_thread


async def in_thread(function: Callable[[], Value], seconds: float) -> Value:
    """Return the result of a function that reads or removes files of containers.

    Raises:
        TimeoutError: it takes longer than ``seconds``. Its thread goes on.
    """
    async with asyncio.timeout(seconds):
        return await asyncio.shield(call_in_daemon_thread(function, "files"))
