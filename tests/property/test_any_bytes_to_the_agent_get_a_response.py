"""Any bytes on the agent's own socket: a response or an error, and no GPU of another pod."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import grpc.aio
import pytest
from hypothesis import given, settings, strategies

from gputopo.catalogue import named
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from gputopo_deviceplugin.kubelet.v1beta1.api_pb2_grpc import (
    DevicePluginServicer,
    add_DevicePluginServicer_to_server,
)
from gputopo_kube.document import ObjectKey
from support.agent.in_process import AgentInProcess, PodsOfApiServer
from support.agent.world import annotation_of, pod_document
from support.kubelet.device_manager import DeviceManager
from support.kubelet.raw_server import spoiled
from support.property_settings import fuzzed, tried

TOPOLOGY = named("dgx1-v100", node="n1")
UUIDS: list[str] = [gpu.uuid for gpu in TOPOLOGY.gpus]
GIVEN = {"waits": UUIDS[2:4], "runs": UUIDS[4:6]}


class Plugin(DevicePluginServicer):
    """The plugin's socket; which agent is behind it changes with each example."""

    def __init__(self, path: Path) -> None:
        self.agent = new_agent()
        self.server = grpc.aio.server()
        add_DevicePluginServicer_to_server(self, self.server)
        self.server.add_insecure_port(f"unix:{path}")
        self.channel = grpc.aio.insecure_channel(f"unix:{path}")

    async def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self.agent.plugin.GetPreferredAllocation(request, context)

    async def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self.agent.plugin.Allocate(request, context)

    async def call(self, method: str, request: bytes) -> bytes | None:
        """Return the response of the right kind, None for a rejection, which has a reason."""
        call = self.channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}",
            request_serializer=bytes,
            response_deserializer=bytes,
        )
        try:
            response: bytes = await call(request, timeout=60.0)
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details()
        else:
            return response
        assert code is not grpc.StatusCode.DEADLINE_EXCEEDED
        assert details
        return None

    async def meets(self, chance: Random) -> None:
        """Send any bytes, also in admission, then a request of kubelet; the agent survives."""
        self.agent = new_agent()
        await self.agent.pods.refresh({ObjectKey("default", name) for name in GIVEN}, 60.0)
        if chance.random() < 0.5:
            await self.call("GetPreferredAllocation", preference(UUIDS, [], 2))
        method = chance.choice([*RESPONSES])
        whole = REQUESTS[method](chance)
        response = await self.call(
            method, spoiled(chance, whole) if chance.random() < 0.7 else whole
        )
        if response is not None:
            RESPONSES[method].FromString(response)
        next_one = await self.call("GetPreferredAllocation", preference(UUIDS, [], 2))
        if next_one is not None:
            [chosen] = api.PreferredAllocationResponse.FromString(next_one).container_responses
            assert list(chosen.deviceIDs) == GIVEN["waits"]
        for pod, gpus in self.agent.recorder.allocations:
            assert list(gpus) == GIVEN[pod.key.name] == GIVEN["waits"]


def new_agent() -> AgentInProcess:
    """Return an agent of a node with one pod in admission and one that runs."""
    server, manager = PodsOfApiServer(), DeviceManager(0)
    for name, gpus in GIVEN.items():
        annotation = annotation_of(name, {"main": gpus})
        server.put(pod_document(name, {"main": 2}, annotation=annotation))
    manager.checkpoint.pods["default", "waits"] = {"main": set()}
    manager.checkpoint.pods["default", "runs"] = {"main": set(GIVEN["runs"])}
    return AgentInProcess(TOPOLOGY, server, manager)


def preference(available: list[str], must: list[str], size: int) -> bytes:
    """Return the preference request of kubelet."""
    one = {
        "available_deviceIDs": available,
        "must_include_deviceIDs": must,
        "allocation_size": size,
    }
    return api.PreferredAllocationRequest(container_requests=[one]).SerializeToString()


def any_preference(chance: Random) -> bytes:
    return preference(UUIDS, chance.choice([[], [], any_ids(chance)]), chance.choice([2, 2, 0, -1]))


def any_allocation(chance: Random) -> bytes:
    one = {"devices_ids": chance.choice([*[GIVEN["waits"]] * 4, GIVEN["runs"], any_ids(chance)])}
    return api.AllocateRequest(container_requests=[one]).SerializeToString()


def any_ids(chance: Random) -> list[str]:
    return chance.choices([*UUIDS, "", "x" * 100_000, "\x00"], k=chance.randint(0, 4))


REQUESTS: dict[str, Callable[[Random], bytes]] = {
    "GetPreferredAllocation": any_preference,
    "Allocate": any_allocation,
}
RESPONSES: dict[str, type[Any]] = {
    "GetPreferredAllocation": api.PreferredAllocationResponse,
    "Allocate": api.AllocateResponse,
}


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[asyncio.Runner, Plugin]]:
    with tempfile.TemporaryDirectory(prefix="gt-") as folder, asyncio.Runner() as loop:

        async def start() -> Plugin:
            plugin = Plugin(Path(folder) / "plugin.sock")
            await plugin.server.start()
            return plugin

        async def stop() -> None:
            await plugin.channel.close(None)
            await plugin.server.stop(None)

        plugin = loop.run(start())
        yield loop, plugin
        loop.run(stop())


@settings(fuzzed)
@given(seed=strategies.integers(0, 2**64))
def test_any_bytes_get_a_response_or_an_error_and_no_gpu_of_another_pod(
    world: tuple[asyncio.Runner, Plugin], seed: int
) -> None:
    tried("messages to the agent's socket")
    loop, plugin = world
    loop.run(plugin.meets(Random(seed)))  # noqa: S311 - repeatable disorder
