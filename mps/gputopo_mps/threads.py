"""Calls that block, and can hang, in threads that do not keep the program alive."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

Value = TypeVar("Value")


def start_thread(function: Callable[[], Value], name: str) -> "asyncio.Future[Value]":
    """Call a function in a new daemon thread; return the future of its result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Value] = loop.create_future()
    threading.Thread(target=_run, args=(function, loop, future), name=name, daemon=True).start()
    return future


async def in_thread(function: Callable[[], Value], seconds: float) -> Value:
    """Return the result of a function that reads or removes files of containers.

    Raises:
        TimeoutError: it takes longer than ``seconds``. Its thread goes on.
    """
    async with asyncio.timeout(seconds):
        return await asyncio.shield(start_thread(function, "files"))


def _run(
    function: Callable[[], Value], loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Value]"
) -> None:
    try:
        complete = partial(future.set_result, function())
    except Exception as error:  # noqa: BLE001 - passed on to the caller
        complete = partial(future.set_exception, error)
    with suppress(RuntimeError):  # the loop was closed meanwhile
        loop.call_soon_threadsafe(complete)
