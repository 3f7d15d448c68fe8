"""One connection to a runtime that speaks another protocol, closes, or is not there."""

import asyncio
import socket as sockets
from pathlib import Path

import pytest

from gputopo_deviceplugin.nri.calls import registration
from gputopo_deviceplugin.nri.frames import (
    PLUGIN_CONNECTION,
    REQUEST,
    RESPONSE,
    RUNTIME_CONNECTION,
    MessageDecoder,
    NriError,
    RpcMessage,
    encode_message,
)
from gputopo_deviceplugin.nri.session import run_session
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api


class Calls:
    """A plugin that records its calls."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.updates: list[bytes] = []

    def respond(self, method: str, payload: bytes) -> bytes:
        """Return the payload."""
        self.methods.append(method)
        self.updates += [payload] if method == "PostStartContainer" else []
        return payload

    def take_updates(self) -> bytes:
        """Return the payload of the last call, if it was that of a started container."""
        return self.updates.pop() if self.updates else b""


def respond_once(listener: sockets.socket, sent: bytes) -> bytes:
    """Read the registration, send these bytes, and return what comes then."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(60)
        assert connection.recv(4096) == registration()
        connection.sendall(sent)
        return connection.recv(4096) if sent.startswith(bytes(3)) else b""


async def run_with(folder: Path, sent: bytes) -> tuple[bytes, list[str], str]:
    """Return the response to ``sent``, the calls of the plugin, and the error at the end."""
    calls = Calls()
    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(str(folder / "nri.sock"))
        listener.listen()
        runtime = asyncio.to_thread(respond_once, listener, sent)
        task = asyncio.create_task(runtime)
        with pytest.raises(NriError) as error:
            await run_session(folder / "nri.sock", calls)
        return await task, calls.methods, str(error.value)


async def test_without_a_socket_the_message_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(NriError, match=r"nri\.sock: No such file or directory"):
        await run_session(tmp_path / "nri.sock", Calls())


async def test_calls_get_responses_until_the_runtime_closes_the_connection(tmp_path: Path) -> None:
    call = api.RpcRequest(method="Configure", payload=b"x").SerializeToString()
    accepted = encode_message(RpcMessage(RUNTIME_CONNECTION, 1, RESPONSE, b""))
    called = encode_message(RpcMessage(PLUGIN_CONNECTION, 1, REQUEST, call))
    response, methods, error = await run_with(tmp_path, accepted + called)
    assert response.endswith(b"x")
    assert methods == ["Configure"]
    assert error.endswith("the container runtime has closed the connection")


async def test_updates_follow_the_response_as_calls_of_the_plugin(tmp_path: Path) -> None:
    def start_two(listener: sockets.socket) -> list[RpcMessage]:
        connection, _ = listener.accept()
        decoder, found = MessageDecoder(), list[RpcMessage]()
        with connection:
            connection.settimeout(60)
            assert connection.recv(4096) == registration()
            for stream, payload in ((1, b"x"), (3, b"y")):
                call = api.RpcRequest(method="PostStartContainer", payload=payload)
                data = call.SerializeToString()
                message = RpcMessage(PLUGIN_CONNECTION, stream, REQUEST, data)
                connection.sendall(encode_message(message))
            while len(found) < 4:
                found += decoder.feed(connection.recv(4096))
        return found

    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "nri.sock"))
        listener.listen()
        task = asyncio.create_task(asyncio.to_thread(start_two, listener))
        with pytest.raises(NriError):
            await run_session(tmp_path / "nri.sock", Calls())
        found = await task
    assert [(each.connection, each.stream, each.kind) for each in found] == [
        (PLUGIN_CONNECTION, 1, RESPONSE),
        (RUNTIME_CONNECTION, 3, REQUEST),
        (PLUGIN_CONNECTION, 3, RESPONSE),
        (RUNTIME_CONNECTION, 5, REQUEST),
    ]
    calls = [api.RpcRequest.FromString(each.data) for each in found[1::2]]
    assert [(call.method, call.payload) for call in calls] == [
        ("UpdateContainers", b"x"),
        ("UpdateContainers", b"y"),
    ]


async def test_another_protocol_ends_the_connection(tmp_path: Path) -> None:
    _, methods, error = await run_with(tmp_path, b"HTTP/1.1 400 Bad Request\r\n")
    assert methods == []
    assert "is over" in error


async def test_a_reset_connection_ends_with_its_reason(tmp_path: Path) -> None:
    def reset(listener: sockets.socket) -> None:
        connection, _ = listener.accept()
        connection.recv(1, sockets.MSG_PEEK)
        connection.close()  # the kernel resets a connection that is closed with unread data

    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "nri.sock"))
        listener.listen()
        task = asyncio.create_task(asyncio.to_thread(reset, listener))
        with pytest.raises(NriError, match="Connection reset by peer"):
            await run_session(tmp_path / "nri.sock", Calls())
        await task
