"""Reads from kubelet's pod-resources API which GPUs each container has."""

import asyncio
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc.aio
from google.protobuf.message import DecodeError

from gputopo.api.shares import share_resource
from gputopo.errors import GputopoError
from gputopo.runtime.messages import quoted
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.kubelet.podresources import api_pb2 as api
from gputopo_kube.document import ObjectKey

CHANNEL_OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),  # Go's server rejects a path as authority
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", 16 * 2**20),
)

_LABEL: Final = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_DEVICE: Final = re.compile(r"[!-~]{1,63}")
_LONGEST_REASON: Final = 300

_PAUSE_SECONDS: Final = 0.015
_RETRY_SECONDS: Final = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: 60.0,
    grpc.StatusCode.UNAVAILABLE: 0.1,
}
"""Longest time for which the client repeats a failed call, by the status of the failure.

Kubelet returns RESOURCE_EXHAUSTED if all clients together send more than 100 calls a second. If
UNAVAILABLE lasts longer than 0.1 s, kubelet is down."""


class PodResourcesError(GputopoError):
    """Kubelet did not return a valid pod-resources list."""


@dataclass(frozen=True, slots=True)
class ListedPod:
    """A pod in the pod-resources list.

    Kubelet never lists ordinary init containers.

    Attributes:
        containers: the GPUs, or the shares of GPUs, of each container, by container name.
        cpus: the exclusive CPUs of each container that has some, by container name.
    """

    key: ObjectKey
    containers: Mapping[str, frozenset[GpuUuid]]
    cpus: Mapping[str, frozenset[int]] = field(default_factory=dict)


class PodResourcesClient:
    """A client of kubelet's pod-resources socket."""

    def __init__(self, socket: Path, resource: str) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS)
        # If gRPC decoded the response, an invalid response would be None. So it returns bytes.
        self._list = self._channel.unary_unary(
            "/v1.PodResourcesLister/List",
            request_serializer=api.ListPodResourcesRequest.SerializeToString,
            response_deserializer=bytes,
        )
        self._allocatable = self._channel.unary_unary(
            "/v1.PodResourcesLister/GetAllocatableResources",
            request_serializer=api.AllocatableResourcesRequest.SerializeToString,
            response_deserializer=bytes,
        )
        self._resources = frozenset({resource, share_resource(resource)})

    async def allocatable_cpus(self, timeout_seconds: float) -> frozenset[int]:
        """Return the CPUs that containers can get exclusively; none without the static manager.

        Raises:
            PodResourcesError: kubelet does not respond in time, or its response is not valid.
        """
        try:
            raw: bytes = await self._allocatable(
                api.AllocatableResourcesRequest(), timeout=timeout_seconds
            )
            return frozenset(api.AllocatableResourcesResponse.FromString(raw).cpu_ids)
        except grpc.aio.AioRpcError as error:
            raise _error(error.details() or error.code().name) from error
        except DecodeError as error:
            raise _error("the response is not a message of this API") from error

    async def list_pods(self, timeout_seconds: float) -> list[ListedPod]:
        """Return every pod that kubelet knows, including pods without GPUs.

        If kubelet rejects the call because of its rate limit, the client repeats the call until the
        time is up.

        Raises:
            PodResourcesError: kubelet does not respond in time, or its response is not valid.
        """
        try:
            raw = await self._call(timeout_seconds)
            response = api.ListPodResourcesResponse.FromString(raw)
            return [self._parse_pod(pod) for pod in response.pod_resources]
        except grpc.aio.AioRpcError as error:
            raise _error(error.details() or error.code().name) from error
        except DecodeError as error:
            raise _error("the response is not a message of this API") from error

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close(None)

    async def _call(self, timeout_seconds: float) -> bytes:
        clock = asyncio.get_running_loop().time
        start = clock()
        first_error: grpc.aio.AioRpcError | None = None
        while True:
            left = timeout_seconds - (clock() - start)
            try:
                raw: bytes = await self._list(api.ListPodResourcesRequest(), timeout=left)
            except grpc.aio.AioRpcError as error:
                # The first error is more specific than the last one, which may be a timeout.
                first_error = first_error or error
                elapsed = clock() - start + _PAUSE_SECONDS
                if elapsed > min(timeout_seconds, _RETRY_SECONDS.get(error.code(), 0.0)):
                    raise first_error from None
            else:
                return raw
            # Jitter, so that clients that were rejected together do not call again together.
            await asyncio.sleep(_PAUSE_SECONDS * random.uniform(0.7, 1.3))  # noqa: S311

    def _parse_pod(self, pod: api.PodResources) -> ListedPod:
        _check("namespace", _LABEL, pod.namespace)
        _check("pod", _SUBDOMAIN, pod.name)
        containers: dict[str, frozenset[GpuUuid]] = {}
        cpus: dict[str, frozenset[int]] = {}
        for container in pod.containers:
            _check("container", _LABEL, container.name)
            if container.name in containers:
                raise _error(f"container {container.name} is listed twice")
            containers[container.name] = self._parse_gpus(container)
            if container.cpu_ids:
                cpus[container.name] = frozenset(container.cpu_ids)
        return ListedPod(ObjectKey(pod.namespace, pod.name), containers, cpus)

    def _parse_gpus(self, container: api.ContainerResources) -> frozenset[GpuUuid]:
        ids = [
            uuid
            for devices in container.devices
            if devices.resource_name in self._resources
            for uuid in devices.device_ids
        ]
        for uuid in ids:
            _check("device", _DEVICE, uuid)
        return frozenset(map(GpuUuid, ids))


def _check(kind: str, allowed: re.Pattern[str], name: str) -> None:
    """Reject a name that Kubernetes does not allow: the agent puts names into URLs and messages."""
    if not allowed.fullmatch(name):
        raise _error(f"{kind} name {quoted(name)} is not valid")


def _error(reason: str) -> PodResourcesError:
    text = "".join(each if each.isprintable() else "?" for each in reason[:_LONGEST_REASON])
    return PodResourcesError(f"kubelet's pod-resources list: {text}")
