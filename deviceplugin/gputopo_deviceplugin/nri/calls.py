"""Builds and parses the calls between the container runtime and its plugins. Pure functions."""

from typing import Final, Protocol

from google.protobuf.message import DecodeError

from gputopo_deviceplugin.nri.frames import (
    PLUGIN_CONNECTION,
    REQUEST,
    RESPONSE,
    RUNTIME_CONNECTION,
    NriError,
    RpcMessage,
    encode_message,
)
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api

_RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"

_REGISTRATION_STREAM: Final = 1
"""Streams of a client are odd, and ascend."""

FIRST_UPDATE_STREAM: Final = 3
STREAM_STEP: Final = 2

PLUGIN_NAME: Final = "gputopo"
PLUGIN_INDEX: Final = "99"
"""The last one. A container whose CPUs another plugin has set reaches this plugin with them. If two
plugins set the CPUs of a container, the runtime does not create the container."""


class PluginCalls(Protocol):
    """Responds to the calls of the runtime."""

    def respond(self, method: str, payload: bytes) -> bytes:
        """Return the response to a request; never fail."""

    def take_updates(self) -> bytes:
        """Return the request with which the plugin updates containers now; empty for none."""


def registration() -> bytes:
    """Return the bytes of the first call: the plugin registers."""
    request = api.RegisterPluginRequest(plugin_name=PLUGIN_NAME, plugin_idx=PLUGIN_INDEX)
    return _call(_REGISTRATION_STREAM, "RegisterPlugin", request.SerializeToString())


def update_call(stream: int, payload: bytes) -> bytes:
    """Return the bytes of a later call: the plugin updates containers."""
    return _call(stream, "UpdateContainers", payload)


def handle_message(message: RpcMessage, plugin: PluginCalls) -> bytes:
    """Return the bytes to send after a message of the runtime: a response, or nothing.

    Raises:
        NriError: the message is not valid, or the runtime has rejected a call of the plugin.
    """
    try:
        if message.connection == PLUGIN_CONNECTION and message.kind == REQUEST:
            call = api.RpcRequest.FromString(message.data)
            return _response(message.stream, plugin.respond(call.method, call.payload))
        if message.connection == RUNTIME_CONNECTION and message.kind == RESPONSE:
            status = api.RpcResponse.FromString(message.data).status
            if status.code:
                what = "the plugin" if message.stream == _REGISTRATION_STREAM else "an update"
                raise NriError(f"the runtime rejects {what}: {status.message}")
    except DecodeError as error:
        raise NriError(f"the runtime sent a message that is not protobuf: {error}") from error
    return b""


def _call(stream: int, method: str, payload: bytes) -> bytes:
    call = api.RpcRequest(service=_RUNTIME_SERVICE, method=method, payload=payload)
    return encode_message(RpcMessage(RUNTIME_CONNECTION, stream, REQUEST, call.SerializeToString()))


def _response(stream: int, payload: bytes) -> bytes:
    data = api.RpcResponse(status=api.RpcStatus(), payload=payload).SerializeToString()
    return encode_message(RpcMessage(PLUGIN_CONNECTION, stream, RESPONSE, data))
