"""Random calls and lists of kubelet: the agent returns a response, or an error with a reason.

No GPU is given to two live pods, for any calls.
"""

from collections.abc import Awaitable
from random import Random
from typing import Any

import grpc.aio
from hypothesis import given, strategies

from gputopo.api.names import RESOURCE
from gputopo.catalogue import named
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api
from gputopo_kube.pods import parse_pod
from support.agent.in_process import AgentInProcess, Context, PodsOfApiServer
from support.agent.world import annotation_of, pod_document
from support.kubelet.device_manager import DeviceManager
from support.property_settings import fuzzed, tried
from support.virtual_time import runner

TOPOLOGY = named("dgx1-v100", node="n1")
UUIDS: list[str] = [gpu.uuid for gpu in TOPOLOGY.gpus]
ODD_IDS = ["", " ", "GPU-unknown", "\x00", "\U0001f600", "x" * 5000, UUIDS[0].upper()]
PODS = ["a", "b", "c"]


class Kubelet:
    """A kubelet with wrong values for free GPUs, used GPUs and its earlier requests."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)  # noqa: S311 - repeatable disorder
        self.server = PodsOfApiServer()
        self.manager = DeviceManager(seed)
        self.agent = AgentInProcess(TOPOLOGY, self.server, self.manager)
        self.count = 0

    async def live(self) -> None:
        await self.agent.start()
        steps = [
            self.bind,
            self.end,
            self.lie,
            self.request_anything,
            self.take_anything,
            *[self.admit] * 5,
        ]
        await self.bind()
        for _ in range(self.chance.randint(3, 14)):
            await self.chance.choice(steps)()
            self.no_gpu_is_allocated_twice()
        await self.agent.observer.observe()
        await self.agent.stop()

    async def bind(self) -> None:
        """A pod is bound, or another one of its name; its annotation names any GPUs."""
        name = self.chance.choice(PODS)
        self.count += 1
        requests = {"c0": self.chance.randint(0, 3), "c1": self.chance.choice([0, 0, 2])}
        init = {"i0": self.chance.randint(0, 2)} if self.chance.random() < 0.3 else {}
        given = {each: self.chance.sample(UUIDS, gpus) for each, gpus in requests.items() if gpus}
        uid = f"uid-{self.count}"
        annotation = self.chance.choice([*[annotation_of(name, given, uid=uid)] * 6, None, "[]"])
        self.server.put(pod_document(name, requests, uid=uid, annotation=annotation, init=init))
        self.manager.checkpoint.pods["default", name] = {each: set() for each in requests}

    async def end(self) -> None:
        """A pod ends or is deleted."""
        if self.server.pods:
            key = self.chance.choice(list(self.server.pods))
            self.server.delete(key)

    async def lie(self) -> None:
        """Kubelet's list contains anything."""
        checkpoint = {}
        for name in self.chance.sample([*PODS, "unknown", ""], self.chance.randint(0, 5)):
            containers = self.chance.sample(
                ["c0", "c1", "i0", "", "odd"], self.chance.randint(0, 3)
            )
            checkpoint["default", name] = {each: set(self.ids(3)) for each in containers}
        self.manager.checkpoint.pods = checkpoint
        self.server.down = self.chance.random() < 0.1

    async def request_anything(self) -> None:
        """Kubelet requests a preference with any values."""
        offered = self.chance.choice([UUIDS, UUIDS, UUIDS, self.ids(12)])
        must = self.chance.choice([[], [], self.ids(3)])
        await self.prefer(offered, must, self.chance.choice([1, 1, 2, 2, 3, 0, -1, 9, 2**31 - 1]))

    async def prefer(self, offered: list[str], must: list[str], size: int) -> list[str]:
        """Return the preference, none where it is rejected."""
        one = {
            "available_deviceIDs": offered,
            "must_include_deviceIDs": must,
            "allocation_size": size,
        }
        request = api.PreferredAllocationRequest(
            container_requests=[one] * self.chance.choice([1, 1, 1, 0, 2])
        )
        reply = await self.call(self.agent.plugin.GetPreferredAllocation(request, self.context))
        if reply is None:
            return []
        assert len(reply.container_responses) == len(request.container_requests)
        chosen: list[str] = []
        for response in reply.container_responses:
            chosen = list(response.deviceIDs)
            assert len(chosen) == len(set(chosen)) <= max(size, 0)
            assert set(chosen) <= set(offered) | set(must)
        return chosen

    async def take_anything(self) -> None:
        """Kubelet takes anything."""
        await self.allocate(self.ids(4))

    async def allocate(self, taken: list[str]) -> None:
        """Containers see the GPUs that kubelet took, or do not start."""
        request = api.AllocateRequest(
            container_requests=[{"devices_ids": taken}] * self.chance.choice([1, 1, 1, 0, 2])
        )
        reply = await self.call(self.agent.plugin.Allocate(request, self.context))
        if reply is None:
            return
        assert len(reply.container_responses) == len(request.container_requests)
        for response in reply.container_responses:
            seen = response.envs["CUDA_VISIBLE_DEVICES"].split(",")
            assert set(seen) == set(taken)
            assert len(response.devices) == len(seen) + 1

    async def admit(self) -> None:
        """Kubelet admits a container correctly, but may take other IDs than the preferred ones."""
        if not self.server.pods:
            return
        key, document = self.chance.choice(list(self.server.pods.items()))
        self.server.down = False
        checkpoint = self.manager.checkpoint.pods
        checkpoint.clear()
        checkpoint[key] = {each["name"]: set() for each in document["spec"]["containers"]}
        requests = parse_pod(document, RESOURCE).containers
        chosen = await self.prefer(UUIDS, [], requests[0].gpus if requests else 1)
        if chosen:
            whim = self.chance.random() < 0.1
            taken = self.ids(4) if whim else self.chance.sample(chosen, len(chosen))
            await self.allocate(taken)

    def ids(self, most: int) -> list[str]:
        """Return device IDs, some of them odd, some of them twice."""
        odd = self.chance.random() < 0.1
        return self.chance.choices(
            [*UUIDS, *ODD_IDS] if odd else UUIDS, k=self.chance.randint(0, most)
        )

    @property
    def context(self) -> Any:
        return Context()

    async def call(self, call: Awaitable[Any]) -> Any:
        """Return the response, None for a rejection, which has a reason and is counted."""
        self.agent.recorder.rejections.clear()
        response, reasons = await _outcome(call)
        assert self.agent.recorder.rejections == reasons
        assert all(reasons)
        return response

    def no_gpu_is_allocated_twice(self) -> None:
        alive = {doc["metadata"]["uid"] for doc in self.server.pods.values()}
        users: dict[str, str] = {}
        for pod, gpus in self.agent.recorder.allocations:
            if pod.uid in alive:
                for gpu in gpus:
                    assert users.setdefault(gpu, pod.uid) == pod.uid


async def _outcome(call: Awaitable[Any]) -> tuple[Any, list[str]]:
    try:
        return await call, []
    except grpc.aio.AioRpcError as error:
        return None, [str(error.details())]


@fuzzed
@given(seed=strategies.integers(0, 2**64))
def test_any_call_gets_a_response_or_an_error_and_no_gpu_is_allocated_twice(seed: int) -> None:
    tried("kubelets that lie")
    with runner() as loop:
        loop.run(Kubelet(seed).live())
