"""The frames between the agent and the container runtime."""

import struct

import pytest

from gputopo_deviceplugin.nri.frames import (
    MAX_DATA,
    PLUGIN_CONNECTION,
    REQUEST,
    RESPONSE,
    RUNTIME_CONNECTION,
    MessageDecoder,
    NriError,
    RpcMessage,
    encode_message,
)

SMALL = RpcMessage(PLUGIN_CONNECTION, 1, REQUEST, b"abc")


def test_a_message_has_the_headers_of_the_multiplexer_and_of_ttrpc() -> None:
    head = bytes([0, 0, 0, 1, 0, 0, 0, 13]) + bytes([0, 0, 0, 3, 0, 0, 0, 1, 1, 0])
    assert encode_message(SMALL) == head + b"abc"


def test_a_long_message_is_sent_in_frames_that_fit_the_buffer_of_the_runtime() -> None:
    message = RpcMessage(RUNTIME_CONNECTION, 7, RESPONSE, bytes(9_000))
    sent = encode_message(message)
    sizes = []
    at = 0
    while at < len(sent):
        connection, size = struct.unpack_from(">II", sent, at)
        assert connection == RUNTIME_CONNECTION
        sizes.append(size)
        at += 8 + size
    assert sizes == [4096, 4096, 9_010 - 2 * 4096]
    assert MessageDecoder().feed(sent) == [message]


def test_the_longest_message_is_sent_and_a_longer_one_is_not() -> None:
    longest = RpcMessage(PLUGIN_CONNECTION, 1, REQUEST, bytes(MAX_DATA))
    assert MessageDecoder().feed(encode_message(longest)) == [longest]
    with pytest.raises(NriError, match="4194305 bytes is over 4194304"):
        encode_message(RpcMessage(PLUGIN_CONNECTION, 1, REQUEST, bytes(MAX_DATA + 1)))


def test_a_frame_of_the_runtime_may_be_longer_than_those_of_the_plugin() -> None:
    data = struct.pack(">IIBB", 20_000, 5, RESPONSE, 0) + bytes(20_000)
    frame = struct.pack(">II", PLUGIN_CONNECTION, len(data)) + data
    assert MessageDecoder().feed(frame)[0].stream == 5


def test_messages_of_two_connections_may_alternate_frame_by_frame() -> None:
    first, second = encode_message(SMALL)[8:], encode_message(SMALL)[8:]
    decoder = MessageDecoder()
    found = []
    for part in (slice(0, 4), slice(4, None)):
        for connection, whole in ((PLUGIN_CONNECTION, first), (RUNTIME_CONNECTION, second)):
            data = whole[part]
            found += decoder.feed(struct.pack(">II", connection, len(data)) + data)
    assert [each.connection for each in found] == [PLUGIN_CONNECTION, RUNTIME_CONNECTION]


def test_a_message_may_arrive_byte_by_byte() -> None:
    decoder = MessageDecoder()
    sent = encode_message(SMALL)
    assert [decoder.feed(bytes([byte])) for byte in sent][-1] == [SMALL]


def test_other_connections_are_ignored() -> None:
    other = encode_message(RpcMessage(9, 1, REQUEST, b"x"))
    assert MessageDecoder().feed(other + encode_message(SMALL)) == [SMALL]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">II", 1, MAX_DATA + 11), "a frame of 4194315 bytes"),
        (struct.pack(">IIIIBB", 1, 10, MAX_DATA + 1, 1, 1, 0), "a message of 4194305 bytes"),
        (b"GET / HTTP/1.1\r\n", "a frame of"),
    ],
)
def test_other_bytes_are_rejected(data: bytes, message: str) -> None:
    with pytest.raises(NriError, match=message):
        MessageDecoder().feed(data)
