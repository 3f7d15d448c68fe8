"""Kubelet limits the pod-resources calls of all clients together."""

import asyncio

import grpc
import grpc.aio
import pytest

from gputopo_deviceplugin.kubelet.pod_resources import PodResourcesClient, PodResourcesError
from support.agent.world import AgentWorld
from support.kubelet.raw_server import raw_kubelet
from support.kubelet.server import RateLimit


async def test_pods_are_admitted_while_another_client_lists_500_times_a_second(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        # The agent repeats its call 67 times a second, and of 567 calls a second 100 succeed.
        world.kubelet.list_limit = RateLimit(calls_per_success=6)
        for index in range(8):
            given = await world.run(f"pod-{index}", {"main": [index]})
            assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[index]
        await world.until(lambda: world.observed(7).get("podUID") == "uid-pod-7")
    assert world.kubelet.lists_rejected > 0
    assert world.kubelet.checkpoint.lists_inside_allocate == 0


@pytest.mark.parametrize(
    ("code", "seconds"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 2.9),
        (grpc.StatusCode.UNAVAILABLE, 0.05),
        (grpc.StatusCode.INTERNAL, 0.0),
    ],
)
async def test_a_call_that_kubelet_keeps_rejecting_is_repeated_for_a_limited_time(
    world: AgentWorld, code: grpc.StatusCode, seconds: float
) -> None:
    path = world.kubelet.socket.parent / "raw.sock"
    with raw_kubelet(path) as kubelet:
        lister = PodResourcesClient(path, "gputopo.io/gpu")
        assert await lister.list_pods(60.0) == []
        kubelet.failure = (code, "no")
        clock = asyncio.get_running_loop().time
        start = clock()
        with pytest.raises(PodResourcesError, match="no"):
            await lister.list_pods(3.0)
        assert clock() - start >= seconds
        await lister.close()
