"""An ending agent writes its status on a real API server, which decides which write was last."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from lightkube import AsyncClient, KubeConfig

from gputopo.api.names import RESOURCE
from gputopo.catalogue import named
from gputopo_deviceplugin.apiserver.node_api import NodeApi
from gputopo_deviceplugin.apiserver.node_pods import PodsVersion
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.report.node_conditions import ready_condition
from gputopo_deviceplugin.report.publisher import TopologyPublisher
from gputopo_deviceplugin.report.status import NodeObservation, observed_gpus
from support.control_plane.api_server import TOPOLOGIES, ApiServer

NODE = "withdrawn"
TOPOLOGY = named("dgx1-v100", node=NODE)
HARDWARE = NodeHardware(TOPOLOGY, dict.fromkeys(gpu.uuid for gpu in TOPOLOGY.gpus), None)
OBSERVATION = NodeObservation(
    hardware=HARDWARE,
    ready=ready_condition(HARDWARE, None, registered=True, watched=True),
    gpus=observed_gpus(HARDWARE.health, {}),
    differing=[],
    pods_version=PodsVersion(1, 1),
    processes_visible=True,
)


@asynccontextmanager
async def publisher(server: ApiServer) -> AsyncIterator[TopologyPublisher]:
    """Return an agent's publisher that has published."""
    server.create("/api/v1/nodes", {"metadata": {"name": NODE}})
    config = KubeConfig.from_file(server.kubeconfig)
    async with AsyncClient(config=config, trust_env=False) as client:
        api = NodeApi(client, node=NODE, resource=RESOURCE)
        found = TopologyPublisher(api)
        await found.load()
        [node] = (await api.nodes.list()).items
        await found.publish(node, OBSERVATION)
        assert ready(server) == ("True", "Serving")
        yield found


def ready(server: ApiServer) -> tuple[str, str]:
    conditions = server.get(f"{TOPOLOGIES}/{NODE}").body["status"]["conditions"]
    [found] = [each for each in conditions if each["type"] == "Ready"]
    return found["status"], found["reason"]


async def test_agent_that_stops_changes_its_readiness_only(server: ApiServer) -> None:
    async with publisher(server) as agents:
        before = server.get(f"{TOPOLOGIES}/{NODE}").body
        assert await agents.withdraw()
    after = server.get(f"{TOPOLOGIES}/{NODE}").body
    assert ready(server) == ("False", "Stopping")
    assert after["spec"] == before["spec"]
    assert after["status"]["gpus"] == before["status"]["gpus"]
    assert after["status"]["conditions"][1:] == before["status"]["conditions"][1:]


@pytest.mark.parametrize(
    ("path", "change", "withdrawn"),
    [
        ("/status", {"status": {"fingerprint": "another agent's"}}, False),
        ("", {"metadata": {"labels": {"team": "a"}}}, True),
    ],
)
async def test_agent_that_stops_writes_after_a_change_of_a_label_but_not_after_another_agent(
    server: ApiServer, path: str, change: object, *, withdrawn: bool
) -> None:
    async with publisher(server) as agents:
        assert server.merge(f"{TOPOLOGIES}/{NODE}{path}", change).accepted
        assert await agents.withdraw() is withdrawn
    assert ready(server) == (("False", "Stopping") if withdrawn else ("True", "Serving"))
