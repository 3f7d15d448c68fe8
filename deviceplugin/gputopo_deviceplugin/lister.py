"""Kubelet's pod-resources list: which container holds which GPUs by kubelet's own books."""

from pathlib import Path
from typing import Final

import grpc.aio

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.identify import ListedPod
from gputopo_deviceplugin.podresources import api_pb2 as api
from gputopo_deviceplugin.podresources.api_pb2_grpc import PodResourcesListerStub
from gputopo_deviceplugin.pods import PodKey

CHANNEL_OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),  # Go's server refuses a path as authority
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", 16 * 2**20),
)


class ListError(Exception):
    """Kubelet did not list its pods."""


class Lister:
    """A client of kubelet's pod-resources socket."""

    def __init__(self, socket: Path, resource: str) -> None:
        """Read the devices of ``resource``."""
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS)
        self._stub = PodResourcesListerStub(self._channel)
        self._resource = resource

    async def list(self, timeout_seconds: float) -> list[ListedPod]:
        """Return every pod that kubelet knows, also those that hold no GPU.

        Raises:
            ListError: where kubelet does not answer in time.
        """
        try:
            reply = await self._stub.List(api.ListPodResourcesRequest(), timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            raise ListError(f"kubelet's pod-resources list: {error.details()}") from error
        return [
            ListedPod(
                PodKey(pod.namespace, pod.name),
                {container.name: self._gpus(container) for container in pod.containers},
            )
            for pod in reply.pod_resources
        ]

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close(None)

    def _gpus(self, container: api.ContainerResources) -> frozenset[GpuUuid]:
        return frozenset(
            GpuUuid(uuid)
            for devices in container.devices
            if devices.resource_name == self._resource
            for uuid in devices.device_ids
        )
