"""Any bytes from kubelet's pod-resources socket: the agent parses them, or allocates nothing."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import grpc
import pytest
from hypothesis import given, settings, strategies

from gputopo.api.names import RESOURCE
from gputopo.api.v1alpha1 import GPUTopologyStatus
from gputopo.catalogue import named
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import AdmissionRejection, PreferenceRequest
from gputopo_deviceplugin.apiserver.node_pods import PodsVersion
from gputopo_deviceplugin.kubelet.pod_resources import (
    ListedPod,
    PodResourcesClient,
    PodResourcesError,
)
from gputopo_deviceplugin.kubelet.podresources import api_pb2 as api
from gputopo_deviceplugin.report.status import (
    STOPPING,
    NodeObservation,
    build_status,
    observed_gpus,
)
from support.agent.in_process import AgentInProcess, PodsOfApiServer
from support.agent.world import annotation_of, pod_document
from support.kubelet.device_manager import DeviceManager
from support.kubelet.raw_server import RawKubelet, garbage, raw_kubelet, spoiled
from support.property_settings import fuzzed, tried

PATIENT = 60.0
"""Longer than any response needs."""

REPEATED = 1.5
"""For responses of a kubelet that limits the rate: the client repeats its call so long."""

TOPOLOGY = named("dgx1-v100", node="n1")
UUIDS = [GpuUuid(gpu.uuid) for gpu in TOPOLOGY.gpus]
GIVEN = {"a": UUIDS[0:2], "b": UUIDS[2:4], "c": UUIDS[4:6]}
ODD_TEXTS = ["", " ", "\x00", "../../nodes/n1", "A", "x" * 64, "x" * 254, "a\nb", "\U0001f600", "?"]
ODD_IDS = ["", "\x00", "x" * 64, "x" * 1_000_000, "GPU-unknown", UUIDS[0].upper()]
HTTP_2 = [
    b"",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    bytes.fromhex("000000040000000000"),  # its settings, and nothing more
    bytes.fromhex("000000040000000000" + "0000ff0104" + "00000001"),  # half of a header
    bytes.fromhex("000000040000000000" + "ffffff0004" + "00000001" + "00"),
]


def message(chance: Random) -> bytes:
    """Return a valid response of kubelet, sometimes with odd names and IDs."""
    reply = api.ListPodResourcesResponse()
    odd = chance.random() < 0.3

    def any_of(usual: list[str], unusual: list[str]) -> str:
        return chance.choice(unusual if odd and chance.random() < 0.2 else usual)

    for _ in range(chance.choice([0, 1, 3, 3, 3, 6])):
        name = any_of(["a", "b", "c", "unknown.x"], ODD_TEXTS)
        pod = reply.pod_resources.add(name=name, namespace=any_of(["default"], ODD_TEXTS))
        for usual in chance.sample(["main", "side"], chance.choice([1, 1, 1, 0, 2])):
            container = pod.containers.add(name=any_of([usual], ["main", *ODD_TEXTS]))
            for _ in range(chance.choice([0, 0, 1, 2])):
                device = container.devices.add(resource_name=any_of([RESOURCE], ["", "other"]))
                device.device_ids.append(any_of(list(UUIDS), ODD_IDS))
    return reply.SerializeToString()


class Node:
    """An agent in a loop of its own, and the socket that it reads."""

    def __init__(
        self, loop: asyncio.Runner, kubelet: RawKubelet, pod_resources: PodResourcesClient
    ) -> None:
        self.loop = loop
        self.kubelet = kubelet
        self.pod_resources = pod_resources
        self.server = PodsOfApiServer()
        for name, gpus in GIVEN.items():
            annotation = annotation_of(name, {"main": gpus})
            self.server.put(pod_document(name, {"main": 2}, annotation=annotation))

    async def meets(self, chance: Random) -> None:
        """Send a random response, and check the agent's reaction."""
        whole = message(chance)
        self.kubelet.response = spoiled(chance, whole) if chance.random() < 0.5 else whole
        agent = AgentInProcess(
            TOPOLOGY,
            self.server,
            DeviceManager(0),
            pod_resources=self.pod_resources,
            timeout_seconds=PATIENT,
        )
        await agent.pods.refresh({*self.server.pods}, PATIENT)
        listed = await self.read()
        if listed is None:
            with pytest.raises(PodResourcesError):
                await agent.observer.observe()
        else:
            await agent.observer.observe()
        assert list(agent.tracker.listed or ()) == (listed or [])
        can_be_published(agent)
        request = PreferenceRequest(available=frozenset(UUIDS), required=frozenset(), size=2)
        response = await agent.admission.prefer(request)
        if isinstance(response, AdmissionRejection):
            assert response.reason
        else:
            assert listed is not None
            assert list(response) in GIVEN.values()

    async def read(self, timeout_seconds: float = PATIENT) -> list[ListedPod] | None:
        """Return the list, which equals the message; None for a rejection with a short reason."""
        try:
            listed = await self.pod_resources.list_pods(timeout_seconds)
        except PodResourcesError as error:
            reason = str(error)
            assert (reason.isprintable(), len(reason) < 400) == (True, True), reason
            return None
        reply = api.ListPodResourcesResponse.FromString(self.kubelet.response)
        assert [pod.key for pod in listed] == [(p.namespace, p.name) for p in reply.pod_resources]
        for message, pod in zip(listed, reply.pod_resources, strict=True):
            assert list(message.containers) == [container.name for container in pod.containers]
            for container in pod.containers:
                ours = [each for each in container.devices if each.resource_name == RESOURCE]
                ids = {uuid for each in ours for uuid in each.device_ids}
                assert message.containers[container.name] == ids
        return listed


def can_be_published(agent: AgentInProcess) -> None:
    """Check that the agent can publish its status after any response."""
    hardware = agent.current.hardware
    assert hardware is not None
    observation = NodeObservation(
        hardware=hardware,
        ready=STOPPING,
        gpus=observed_gpus(hardware.health, agent.tracker.all_users()),
        differing=[each.message for each in agent.observer.differing],
        pods_version=PodsVersion(1, 1),
        processes_visible=True,
    )
    status = build_status(observation, generation=1, before=GPUTopologyStatus(), now="now")
    assert GPUTopologyStatus.model_validate(status.to_json()) == status


@contextmanager
def socket_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gt-") as folder:
        yield Path(folder) / "kubelet.sock"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with socket_path() as path, raw_kubelet(path) as kubelet, asyncio.Runner() as loop:

        async def connect() -> PodResourcesClient:
            return PodResourcesClient(path, RESOURCE)

        pod_resources = loop.run(connect())
        yield Node(loop, kubelet, pod_resources)
        loop.run(pod_resources.close())


@settings(fuzzed)
@given(seed=strategies.integers(0, 2**64))
def test_any_message_is_parsed_or_rejected_and_allocates_no_gpu_of_another_pod(
    node: Node, seed: int
) -> None:
    tried("answers of kubelet's pod-resources socket")
    node.loop.run(node.meets(Random(seed)))  # noqa: S311 - repeatable disorder


def pods_named(*names: str) -> bytes:
    containers = [{"name": "main"}]
    pods = [{"namespace": "default", "name": name, "containers": containers} for name in names]
    return api.ListPodResourcesResponse(pod_resources=pods).SerializeToString()


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"\xff", "the response is not a message of this API"),
        (pods_named("a")[:-1], "the response is not a message of this API"),
        (pods_named("a", "../../nodes/n1"), "pod name '../../nodes/n1' is not valid"),
    ],
)
def test_an_invalid_list_is_rejected_with_the_reason(
    node: Node, response: bytes, message: str
) -> None:
    node.kubelet.response = response
    with pytest.raises(PodResourcesError) as rejected:
        node.loop.run(node.pod_resources.list_pods(PATIENT))
    assert str(rejected.value) == f"kubelet's pod-resources list: {message}"


@pytest.mark.parametrize(
    "code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
)
def test_any_status_is_a_reason(node: Node, code: grpc.StatusCode) -> None:
    for details in ("", "x" * 5000, "\x00\u202e\n"):
        node.kubelet.failure = (code, details)
        assert node.loop.run(node.read(REPEATED)) is None
    node.kubelet.failure = None
    node.kubelet.response = b""
    assert node.loop.run(node.read()) == []


def test_a_message_that_is_too_large_is_rejected(node: Node) -> None:
    node.kubelet.response = b"\x0a" * (17 * 2**20)
    assert node.loop.run(node.read(REPEATED)) is None


@pytest.mark.parametrize("response", [*HTTP_2, Random(1).randbytes(5000)])  # noqa: S311
def test_bytes_that_are_not_grpc_are_rejected_and_the_next_response_is_parsed(
    response: bytes,
) -> None:
    async def meet() -> None:
        pod_resources = PodResourcesClient(path, RESOURCE)
        with garbage(path, response), pytest.raises(PodResourcesError):
            await pod_resources.list_pods(0.5)
        path.unlink()
        with raw_kubelet(path):
            async with asyncio.timeout(PATIENT):
                while True:
                    try:
                        assert await pod_resources.list_pods(2.0) == []
                        break
                    except PodResourcesError:
                        await asyncio.sleep(0.1)
        await pod_resources.close()

    with socket_path() as path, asyncio.Runner() as loop:
        loop.run(meet())
