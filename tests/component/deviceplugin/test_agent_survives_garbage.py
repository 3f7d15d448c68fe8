"""The whole agent with a kubelet that returns invalid lists for some time."""

import pytest

from gputopo_deviceplugin.kubelet.podresources import api_pb2 as podresources
from support.agent.world import AgentWorld
from support.kubelet.device_manager import AdmissionRejectedError
from support.kubelet.raw_server import raw_kubelet


def pod_without_gpus(name: str) -> bytes:
    pod = {"namespace": "default", "name": name, "containers": [{"name": "main"}]}
    return podresources.ListPodResourcesResponse(pod_resources=[pod]).SerializeToString()


async def test_an_invalid_pod_resources_list_fails_new_pods_and_not_the_agent(
    world: AgentWorld,
) -> None:
    socket = world.kubelet.socket.with_name("raw.sock")
    world.settings = world.settings.model_copy(update={"pod_resources_socket": socket})
    failures = world.metrics.registry.get_sample_value
    with raw_kubelet(socket) as raw:
        async with world.agent():
            await world.served()
            raw.response = b"\xff half of a message"
            with pytest.raises(AdmissionRejectedError, match="not a message of this API"):
                await world.run("meanwhile", {"main": [0]})
            await world.until(lambda: failures("gputopo_agent_failures_total", {"of": "observe"}))
            assert world.condition("Ready")["status"] == "True"
            await world.set_phase("meanwhile", "Failed")
            raw.response = pod_without_gpus("after")
            given = await world.run("after", {"main": [1]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]
