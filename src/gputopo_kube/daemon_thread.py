"""Runs blocking calls in daemon threads, so that a hanging call does not keep the process alive.

A ``ThreadPoolExecutor`` is not suitable, because the interpreter waits for its threads at exit.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TypeVar

Value = TypeVar("Value")


def call_in_daemon_thread(function: Callable[[], Value], name: str) -> asyncio.Future[Value]:
    """Call ``function`` in a new daemon thread and return the future of its result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Value] = loop.create_future()

    def run() -> None:
        try:
            complete = partial(future.set_result, function())
        except Exception as error:  # noqa: BLE001 - passed on to the caller
            complete = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the loop was closed meanwhile: no caller is left
            loop.call_soon_threadsafe(complete)

    Thread(target=run, name=name, daemon=True).start()
    return future


async def finished(future: asyncio.Future[Value], timeout_seconds: float | None = None) -> bool:
    """Wait at most ``timeout_seconds`` for ``future``, and return whether it is done."""
    done, _ = await asyncio.wait({future}, timeout=timeout_seconds)
    return bool(done)
