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
"""The plugin makes only one call, so it needs only one stream. Streams of a client are odd."""

PLUGIN_NAME: Final = "gputopo"
PLUGIN_INDEX: Final = "99"
"""The last one. A container whose CPUs another plugin has set reaches this plugin with them. If two
plugins set the CPUs of a container, the runtime does not create the container."""


class PluginCalls(Protocol):
    """Responds to the calls of the runtime."""

    def respond(self, method: str, payload: bytes) -> bytes:
        """Return the response to a request; never fail."""


def registration() -> bytes:
    """Return the bytes of the first call: the plugin registers."""
    request = api.RegisterPluginRequest(plugin_name=PLUGIN_NAME, plugin_idx=PLUGIN_INDEX)
    call = api.RpcRequest(
        service=_RUNTIME_SERVICE, method="RegisterPlugin", payload=request.SerializeToString()
    )
    data = call.SerializeToString()
    return encode_message(RpcMessage(RUNTIME_CONNECTION, _REGISTRATION_STREAM, REQUEST, data))


def handle_message(message: RpcMessage, plugin: PluginCalls) -> bytes:
    """Return the bytes to send after a message of the runtime: a response, or nothing.

    Raises:
        NriError: the message is not valid, or the runtime has rejected the registration.
    """
    try:
        if message.connection == PLUGIN_CONNECTION and message.kind == REQUEST:
            call = api.RpcRequest.FromString(message.data)
            return _response(message.stream, plugin.respond(call.method, call.payload))
        if message.connection == RUNTIME_CONNECTION and message.kind == RESPONSE:
            status = api.RpcResponse.FromString(message.data).status
            if status.code:
                raise NriError(f"the runtime rejects the plugin: {status.message}")
    except DecodeError as error:
        raise NriError(f"the runtime sent a message that is not protobuf: {error}") from error
    return b""


def _response(stream: int, payload: bytes) -> bytes:
    data = api.RpcResponse(status=api.RpcStatus(), payload=payload).SerializeToString()
    return encode_message(RpcMessage(PLUGIN_CONNECTION, stream, RESPONSE, data))
