"""The calls between the container runtime and the plugin."""

import pytest

from gputopo_deviceplugin.nri.calls import handle_message, registration, update_call
from gputopo_deviceplugin.nri.frames import (
    PLUGIN_CONNECTION,
    REQUEST,
    RESPONSE,
    RUNTIME_CONNECTION,
    MessageDecoder,
    NriError,
    RpcMessage,
)
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api


class Echo:
    """A plugin that returns the call."""

    def respond(self, method: str, payload: bytes) -> bytes:
        return method.encode() + payload

    def take_updates(self) -> bytes:
        """Return no update."""
        return b""


def request(data: bytes, stream: int = 3) -> RpcMessage:
    return RpcMessage(PLUGIN_CONNECTION, stream, REQUEST, data)


def test_the_plugin_registers_as_the_last_one() -> None:
    [message] = MessageDecoder().feed(registration())
    call = api.RpcRequest.FromString(message.data)
    assert (message.connection, message.kind) == (RUNTIME_CONNECTION, REQUEST)
    assert (call.service, call.method) == ("nri.pkg.api.v1alpha1.Runtime", "RegisterPlugin")
    registered = api.RegisterPluginRequest.FromString(call.payload)
    assert (registered.plugin_name, registered.plugin_idx) == ("gputopo", "99")


def test_an_update_is_a_call_in_its_own_stream() -> None:
    update = api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id="a")])
    [message] = MessageDecoder().feed(update_call(5, update.SerializeToString()))
    call = api.RpcRequest.FromString(message.data)
    assert (message.connection, message.stream, message.kind) == (RUNTIME_CONNECTION, 5, REQUEST)
    assert (call.service, call.method) == ("nri.pkg.api.v1alpha1.Runtime", "UpdateContainers")
    assert api.UpdateContainersRequest.FromString(call.payload) == update


def test_a_call_of_the_runtime_gets_its_response_in_the_same_stream() -> None:
    data = api.RpcRequest(method="Configure", payload=b"!").SerializeToString()
    [reply] = MessageDecoder().feed(handle_message(request(data), Echo()))
    assert (reply.connection, reply.stream, reply.kind) == (PLUGIN_CONNECTION, 3, RESPONSE)
    response = api.RpcResponse.FromString(reply.data)
    assert (response.status.code, response.payload) == (0, b"Configure!")


def test_the_response_to_the_registration_needs_no_response() -> None:
    accepted = RpcMessage(RUNTIME_CONNECTION, 1, RESPONSE, b"")
    assert handle_message(accepted, Echo()) == b""


@pytest.mark.parametrize(
    ("connection", "kind"), [(PLUGIN_CONNECTION, RESPONSE), (RUNTIME_CONNECTION, REQUEST)]
)
def test_other_messages_are_ignored(connection: int, kind: int) -> None:
    assert handle_message(RpcMessage(connection, 1, kind, b"\xff"), Echo()) == b""


@pytest.mark.parametrize(("stream", "what"), [(1, "the plugin"), (3, "an update")])
def test_a_rejected_call_is_an_error(stream: int, what: str) -> None:
    status = api.RpcStatus(code=2, message="invalid argument")
    data = api.RpcResponse(status=status).SerializeToString()
    rejected = RpcMessage(RUNTIME_CONNECTION, stream, RESPONSE, data)
    with pytest.raises(NriError, match=f"rejects {what}: invalid argument"):
        handle_message(rejected, Echo())


def test_data_that_is_not_protobuf_is_an_error() -> None:
    with pytest.raises(NriError, match="not protobuf"):
        handle_message(request(b"\xff\xff"), Echo())
