"""Kubelet's pod-resources list: which container holds which GPUs by kubelet's own books."""

import asyncio
import random
import re
from pathlib import Path
from typing import Final

import grpc.aio
from google.protobuf.message import DecodeError

from gputopo.errors import GputopoError
from gputopo.runtime.messages import quoted
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import ListedPod
from gputopo_deviceplugin.kubelet.podresources import api_pb2 as api
from gputopo_kube.pods import PodKey

CHANNEL_OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),  # Go's server refuses a path as authority
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", 16 * 2**20),
)


_LABEL: Final = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_DEVICE: Final = re.compile(r"[!-~]{1,63}")
_LONGEST_REASON: Final = 300

_PAUSE_SECONDS: Final = 0.015
_TRIED_SECONDS: Final = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: 60.0,
    grpc.StatusCode.UNAVAILABLE: 0.1,
}
"""How long a call is repeated at most. Kubelet answers RESOURCE_EXHAUSTED beyond 100 calls a second
of all clients together; UNAVAILABLE for longer than a moment means that it is down."""


class PodResourcesError(GputopoError):
    """Kubelet did not list its pods."""


class PodResourcesClient:
    """A client of kubelet's pod-resources socket."""

    def __init__(self, socket: Path, resource: str) -> None:
        """Read the devices of ``resource``."""
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS)
        # Bytes come back: where gRPC itself cannot decode an answer, it returns None for it.
        self._list = self._channel.unary_unary(
            "/v1.PodResourcesLister/List",
            request_serializer=api.ListPodResourcesRequest.SerializeToString,
            response_deserializer=bytes,
        )
        self._resource = resource

    async def list(self, timeout_seconds: float) -> list[ListedPod]:
        """Return every pod that kubelet knows, also those that hold no GPU.

        A call that kubelet rejects for its rate limit is repeated until the time is up.

        Raises:
            ListError: where kubelet does not answer in time, or nothing that can be its books.
        """
        try:
            raw = await self._called(timeout_seconds)
            reply = api.ListPodResourcesResponse.FromString(raw)
            return [self._pod(pod) for pod in reply.pod_resources]
        except grpc.aio.AioRpcError as error:
            raise _unread(error.details() or error.code().name) from error
        except DecodeError as error:
            raise _unread("the answer is no message of its API") from error

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close(None)

    async def _called(self, timeout_seconds: float) -> bytes:
        clock = asyncio.get_running_loop().time
        start = clock()
        rejection: grpc.aio.AioRpcError | None = None
        while True:
            left = timeout_seconds - (clock() - start)
            try:
                raw: bytes = await self._list(api.ListPodResourcesRequest(), timeout=left)
            except grpc.aio.AioRpcError as error:
                # The first rejection says more than that the time is up.
                rejection = rejection or error
                tried = clock() - start + _PAUSE_SECONDS
                if tried > min(timeout_seconds, _TRIED_SECONDS.get(error.code(), 0.0)):
                    raise rejection from None
            else:
                return raw
            # Jitter, so that clients that were rejected together do not come back together.
            await asyncio.sleep(_PAUSE_SECONDS * random.uniform(0.7, 1.3))  # noqa: S311

    def _pod(self, pod: api.PodResources) -> ListedPod:
        _check("a namespace", _LABEL, pod.namespace)
        _check("a pod", _SUBDOMAIN, pod.name)
        containers: dict[str, frozenset[GpuUuid]] = {}
        for container in pod.containers:
            _check("a container", _LABEL, container.name)
            if container.name in containers:
                raise _unread(f"container {container.name} is named twice")
            containers[container.name] = self._gpus(container)
        return ListedPod(PodKey(pod.namespace, pod.name), containers)

    def _gpus(self, container: api.ContainerResources) -> frozenset[GpuUuid]:
        ids = [
            uuid
            for devices in container.devices
            if devices.resource_name == self._resource
            for uuid in devices.device_ids
        ]
        for uuid in ids:
            _check("a device", _DEVICE, uuid)
        return frozenset(map(GpuUuid, ids))


def _check(kind: str, allowed: re.Pattern[str], name: str) -> None:
    """Refuse what Kubernetes calls nothing of this kind: it would go into paths and messages."""
    if not allowed.fullmatch(name):
        raise _unread(f"{quoted(name)} is no name of {kind}")


def _unread(reason: str) -> PodResourcesError:
    text = "".join(each if each.isprintable() else "?" for each in reason[:_LONGEST_REASON])
    return PodResourcesError(f"kubelet's pod-resources list: {text}")
