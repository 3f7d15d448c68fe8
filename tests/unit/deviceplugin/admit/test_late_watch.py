"""The agent between a kubelet and an API server whose watch is late."""

import asyncio

from gputopo.catalogue import named
from gputopo_kube.document import ObjectKey
from support.agent.in_process import AgentInProcess, PluginInProcess, PodsOfApiServer
from support.agent.world import annotation_of, pod_document
from support.api.store import Document
from support.kubelet.device_manager import DeviceManager
from support.virtual_time import runner

TOPOLOGY = named("dgx1-v100", node="n1")
UUIDS: list[str] = [gpu.uuid for gpu in TOPOLOGY.gpus]
WATCH_SECONDS = 1.0
"""Time in which the watch shows all changes."""


def bound_pod(name: str, gpu: int) -> Document:
    annotation = annotation_of(name, {"c0": [UUIDS[gpu]]})
    return pod_document(name, {"c0": 1}, annotation=annotation)


async def admit_beside_a_deleted_pod(server: PodsOfApiServer, manager: DeviceManager) -> str:
    """Return the GPU of a pod. Kubelet lists another one, and the watch has not shown its end."""
    agent = AgentInProcess(TOPOLOGY, server, manager)
    manager.plugin = PluginInProcess(agent.plugin, lambda: None)
    await agent.start()
    server.put(bound_pod("admitted", 0))
    server.put(bound_pod("deleted", 1))
    await asyncio.sleep(WATCH_SECONDS)
    server.mute = True
    server.delete_gracefully(ObjectKey("default", "deleted"))
    manager.checkpoint.pods["default", "deleted"] = {"c0": set()}
    given = await manager.admit(("default", "admitted"), {"c0": 1})
    await agent.stop()
    return given["c0"].envs["CUDA_VISIBLE_DEVICES"]


def test_pod_that_is_deleted_before_its_admission_does_not_wait_for_gpus() -> None:
    manager = DeviceManager()
    manager.devices = dict.fromkeys(UUIDS, "Healthy")
    with runner() as loop:
        given = loop.run(admit_beside_a_deleted_pod(PodsOfApiServer(), manager))
    assert given == UUIDS[0]
