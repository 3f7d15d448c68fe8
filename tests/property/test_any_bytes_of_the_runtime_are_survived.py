"""The connection to the container runtime: split frames, several streams, and any other bytes."""

import struct
from itertools import cycle, zip_longest

from hypothesis import given
from hypothesis import strategies as st

from gputopo.alignment.cpuset import MachineCpus
from gputopo.catalogue import named
from gputopo_deviceplugin.nri.calls import handle_message
from gputopo_deviceplugin.nri.frames import (
    REQUEST,
    RESPONSE,
    MessageDecoder,
    NriError,
    RpcMessage,
    encode_message,
)
from gputopo_deviceplugin.nri.plugin import CpusetPlugin
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api
from support.property_settings import fuzzed, tried

GPUS = {gpu.uuid: gpu for gpu in named("dgx1-v100").gpus}
MACHINE = MachineCpus({0: frozenset(range(4)), 1: frozenset(range(4, 8))}, "none")

messages = st.builds(
    RpcMessage,
    st.sampled_from([1, 2]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([REQUEST, RESPONSE]),
    st.integers(0, 9_000).map(bytes) | st.binary(max_size=50),
)

sizes = st.lists(st.integers(1, 30) | st.integers(1_000, 70_000), min_size=1, max_size=5)
"""Sizes of the parts of a text, repeated until its end."""


class Metrics:
    """Counts nothing."""

    def count_cpuset(self, result: str) -> None:
        """Do nothing."""

    def count_failure(self, operation: str) -> None:
        """Do nothing."""


def plugin() -> CpusetPlugin:
    return CpusetPlugin(GPUS, lambda: MACHINE, Metrics(), lambda: None)


@st.composite
def framed(draw: st.DrawFn) -> tuple[list[RpcMessage], bytes]:
    """Return messages, and the bytes of their frames of any size, interleaved."""
    sent = draw(st.lists(messages, max_size=4))
    flags = draw(st.integers(0, 7))
    pending = {1: b"", 2: b""}
    for each in sent:
        head = struct.pack(">IIBB", len(each.data), each.stream, each.kind, flags)
        pending[each.connection] += head + each.data
    parts = {key: split(whole, draw(sizes)) for key, whole in pending.items()}
    frames = {
        key: [struct.pack(">II", key, len(part)) + part for part in found]
        for key, found in parts.items()
    }
    pairs = zip_longest(frames[1], frames[2], fillvalue=b"")
    return sent, b"".join(frame for pair in pairs for frame in pair)


def split(whole: bytes, lengths: list[int]) -> list[bytes]:
    """Return the parts of ``whole`` with these lengths, which are repeated."""
    parts, lengths_again = [], cycle(lengths)
    while whole:
        size = next(lengths_again)
        parts.append(whole[:size])
        whole = whole[size:]
    return parts


@fuzzed
@given(framed(), sizes)
def test_messages_are_the_same_however_their_bytes_are_split(
    case: tuple[list[RpcMessage], bytes], lengths: list[int]
) -> None:
    sent, stream = case
    decoder = MessageDecoder()
    found = [message for part in split(stream, lengths) for message in decoder.feed(part)]
    for connection in (1, 2):
        of_one = [each for each in sent if each.connection == connection]
        assert [each for each in found if each.connection == connection] == of_one
    tried(f"messages of NRI {min(len(sent), 3)}")


@fuzzed
@given(messages)
def test_what_is_encoded_is_decoded(message: RpcMessage) -> None:
    assert MessageDecoder().feed(encode_message(message)) == [message]


@fuzzed
@given(
    st.lists(st.binary(max_size=60) | messages.map(encode_message), max_size=6),
    st.sampled_from(["CreateContainer", "Synchronize", "UpdateContainer", "StopContainer", "X"]),
    st.binary(max_size=80),
)
def test_any_bytes_end_the_connection_or_get_a_response(
    chunks: list[bytes], method: str, payload: bytes
) -> None:
    calls = plugin()
    decoder = MessageDecoder()
    own = api.RpcRequest(method=method, payload=payload).SerializeToString()
    chunks.append(encode_message(RpcMessage(1, 1, REQUEST, own)))
    for chunk in chunks:
        try:
            for message in decoder.feed(chunk):
                reply = handle_message(message, calls)
                if (message.connection, message.kind) != (1, REQUEST):
                    assert reply == b""
                    continue
                [response] = MessageDecoder().feed(reply)
                assert response.stream == message.stream
                assert api.RpcResponse.FromString(response.data).status.code == 0
                tried("response to the runtime")
        except NriError:
            tried("connection to the runtime ended")
            return
