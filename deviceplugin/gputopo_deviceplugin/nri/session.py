"""Runs one connection to the container runtime, from the registration to its end."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Final

from gputopo_deviceplugin.nri.calls import (
    FIRST_UPDATE_STREAM,
    STREAM_STEP,
    PluginCalls,
    handle_message,
    registration,
    update_call,
)
from gputopo_deviceplugin.nri.frames import MessageDecoder, NriError

_READ_BYTES: Final = 2**16


async def run_session(socket: Path, plugin: PluginCalls) -> None:
    """Register with the runtime and respond to its calls, until cancelled.

    The runtime forgets the plugin when the connection is closed.

    Raises:
        NriError: there is no connection, or it has ended.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(socket)
    except OSError as error:
        raise NriError(f"{socket}: {error.strerror or error}") from error
    try:
        writer.write(registration())
        decoder, streams = MessageDecoder(), count(FIRST_UPDATE_STREAM, STREAM_STEP)
        while data := await reader.read(_READ_BYTES):
            for message in decoder.feed(data):
                writer.write(handle_message(message, plugin))
                if updates := plugin.take_updates():
                    writer.write(update_call(next(streams), updates))
            await writer.drain()
    except OSError as error:
        raise NriError(f"{socket}: {error.strerror or error}") from error
    finally:
        writer.close()
    raise NriError(f"{socket}: the container runtime has closed the connection")
