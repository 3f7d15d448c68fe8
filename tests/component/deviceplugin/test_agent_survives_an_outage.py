"""The agent without its API server, in virtual time: a minute passes at once."""

import asyncio

import pytest

from gputopo.catalogue import named
from gputopo_kube.document import ObjectKey
from support.agent.in_process import AgentInProcess, PluginInProcess, PodsOfApiServer
from support.agent.world import annotation_of, pod_document
from support.kubelet.device_manager import AdmissionRejectedError, DeviceManager
from support.virtual_time import runner

TOPOLOGY = named("dgx1-v100", node="n1")
UUIDS: list[str] = [gpu.uuid for gpu in TOPOLOGY.gpus]
SECONDS_UNTIL_WATCHED_AGAIN = 15.2


def test_a_minute_without_the_api_server_fails_new_pods_only() -> None:
    with runner() as loop:
        loop.run(_a_minute_without())


async def _a_minute_without() -> None:
    server, manager = PodsOfApiServer(), DeviceManager()
    manager.devices = dict.fromkeys(UUIDS, "Healthy")
    agent = AgentInProcess(TOPOLOGY, server, manager)
    manager.plugin = PluginInProcess(agent.plugin, lambda: None)
    await agent.start()

    async def run(name: str, gpu: int) -> str:
        placed = annotation_of(name, {"main": [UUIDS[gpu]]})
        server.put(pod_document(name, {"main": 1}, annotation=placed))
        given = await manager.admit(("default", name), {"main": 1})
        return given["main"].envs["CUDA_VISIBLE_DEVICES"]

    assert await run("before", 0) == UUIDS[0]
    server.down = True
    await asyncio.sleep(60)
    with pytest.raises(AdmissionRejectedError):
        await run("meanwhile", 1)
    await agent.observer.observe()
    assert [pod.key.name for pod in (agent.tracker.listed or ())] == ["before"]
    server.delete(ObjectKey("default", "meanwhile"))
    server.down = False
    assert await run("after", 1) == UUIDS[1]  # at once, independent of the watch
    await asyncio.sleep(SECONDS_UNTIL_WATCHED_AGAIN)
    assert {key.name for key in agent.pods} == {"before", "after"}
    await agent.observer.observe()
    assert agent.recorder.differing == set()
    await agent.stop()
