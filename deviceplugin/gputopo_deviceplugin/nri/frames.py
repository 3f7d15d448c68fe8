"""Splits and joins the frames of a connection to the container runtime. Pure functions.

The connection carries frames: the number of a logical connection (4 bytes), a length (4 bytes) and
data. The data of one logical connection is a sequence of ttRPC messages: a length (4 bytes), the
number of a stream (4 bytes), a type (1 byte), flags (1 byte) and data. All numbers are big endian.
A message may continue in the next frames of its logical connection.

Source: github.com/containerd/nri v0.12, ``pkg/net/multiplex``, and github.com/containerd/ttrpc
v1.2, ``PROTOCOL.md``.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from gputopo.errors import GputopoError

PLUGIN_CONNECTION: Final = 1
"""The runtime calls the plugin."""

RUNTIME_CONNECTION: Final = 2
"""The plugin calls the runtime."""

REQUEST: Final = 1
RESPONSE: Final = 2

MAX_DATA: Final = 4 * 2**20
"""Most bytes of data in a message. The runtime accepts no more, and sends no more."""

_FRAME: Final = Struct(">II")
_MESSAGE: Final = Struct(">IIBB")

_SENT_FRAME: Final = 4096
"""Most bytes of data in a frame that the plugin sends.

The runtime reads a frame into a buffer of this size, and fails if the buffer is too small.
"""


class NriError(GputopoError):
    """The connection to the container runtime failed; the message says why."""


@dataclass(frozen=True, slots=True)
class RpcMessage:
    """A message of ttRPC without flags.

    Attributes:
        connection: number of the logical connection.
        stream: number of the call; a response has the number of its request.
        kind: ``REQUEST`` or ``RESPONSE``.
    """

    connection: int
    stream: int
    kind: int
    data: bytes


def encode_message(message: RpcMessage) -> bytes:
    """Return the frames of a message.

    Raises:
        NriError: the message is too long.
    """
    if len(message.data) > MAX_DATA:
        raise NriError(f"a message of {len(message.data)} bytes is over {MAX_DATA}")
    head = _MESSAGE.pack(len(message.data), message.stream, message.kind, 0)
    whole = head + message.data
    frames = bytearray()
    for start in range(0, len(whole), _SENT_FRAME):
        part = whole[start : start + _SENT_FRAME]
        frames += _FRAME.pack(message.connection, len(part)) + part
    return bytes(frames)


class MessageDecoder:
    """Joins the bytes of a connection to messages. Other logical connections are ignored."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._parts = {number: bytearray() for number in (PLUGIN_CONNECTION, RUNTIME_CONNECTION)}

    def feed(self, data: bytes) -> list[RpcMessage]:
        """Return the messages that end in ``data``, the next bytes of the connection.

        Raises:
            NriError: the bytes are no frames or no messages. The connection must be closed.
        """
        self._received += data
        messages = []
        while (frame := _take_frame(self._received)) is not None:
            connection, content = frame
            if (part := self._parts.get(connection)) is None:
                continue
            part += content
            while (message := _take_message(connection, part)) is not None:
                messages.append(message)
        return messages


def _take_frame(received: bytearray) -> tuple[int, bytes] | None:
    """Remove the first frame from ``received`` and return it; None if it is not complete."""
    if len(received) < _FRAME.size:
        return None
    connection, length = _FRAME.unpack_from(received)
    if length > _MESSAGE.size + MAX_DATA:
        raise NriError(f"a frame of {length} bytes is over {_MESSAGE.size + MAX_DATA}")
    end = _FRAME.size + length
    if len(received) < end:
        return None
    content = bytes(received[_FRAME.size : end])
    del received[:end]
    return connection, content


def _take_message(connection: int, part: bytearray) -> RpcMessage | None:
    """Remove the first message from ``part`` and return it; None if it is not complete."""
    if len(part) < _MESSAGE.size:
        return None
    length, stream, kind, _ = _MESSAGE.unpack_from(part)
    if length > MAX_DATA:
        raise NriError(f"a message of {length} bytes is over {MAX_DATA}")
    end = _MESSAGE.size + length
    if len(part) < end:
        return None
    data = bytes(part[_MESSAGE.size : end])
    del part[:end]
    return RpcMessage(connection, stream, kind, data)
