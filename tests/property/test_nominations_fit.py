"""Random pods are created, nominated, bound, tried and deleted: nominations fit and keep order."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.names import RESOURCE
from gputopo_extender.nomination.nominations import UNUSED_SECONDS
from gputopo_extender.state.queue_pod import QueuePod
from support.extender.nominating import NOT_SCHEDULED, Cluster, queued
from support.property_settings import fuzzed, tried

NODES = {"n1": "dgx1-v100", "n2": "pcie-8gpu", "n3": "dgx1-v100"}
STEPS = 60
KUBE_SCHEDULER = "kube-scheduler"


class Life:
    """A cluster, its pods as the API server stores them, and the nominations of other clients."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)  # noqa: S311 - not a secret
        self.cluster = Cluster()
        for name, topology in NODES.items():
            self.cluster.put_node(name, topology, cpu="20")
        self.stored: dict[str, dict[str, Any]] = {}
        self.of_others: dict[str, str] = {}
        self.created: dict[str, float] = {}
        self.version = 1
        self.now = 0.0

    def write(self, name: str) -> None:
        """Give a stored pod a new version; the watch may show it later."""
        self.version += 1
        self.stored[name]["metadata"]["resourceVersion"] = str(self.version)

    def create(self) -> None:
        """Create a pod; some have a preference or a nomination of kube-scheduler."""
        name, chance = f"p{self.version}", self.chance
        odd: dict[str, Any] = (
            {"topologySpreadConstraints": [{"maxSkew": 1}]} if chance.random() < 0.1 else {}
        )
        gpus, cpu = chance.choice((1, 1, 2, 4, 8)), str(chance.choice((1, 3, 7)))
        document = queued(name, gpus, cpu=cpu, priority=chance.choice((0, 0, 5)), **odd)
        if chance.random() < 0.1:
            self.of_others[name] = chance.choice([*NODES])
            document["status"]["nominatedNodeName"] = self.of_others[name]
        self.stored[name], self.created[name] = document, self.now
        self.write(name)

    def show(self) -> None:
        """Let the watch show all changes."""
        self.cluster.put(*self.stored.values())

    def schedule(self) -> None:
        """Try the first pod, as kube-scheduler does: its nominated node first."""
        for pod in self.cluster.queue.waiting()[:2]:
            document = self.stored[pod.key.name]
            nodes = [document["status"].get("nominatedNodeName"), *NODES]
            node = next((it for it in nodes if it and self.has_amounts(pod, it)), None)
            if node is None:
                document["status"]["conditions"] = [NOT_SCHEDULED]
            else:
                document["spec"]["nodeName"] = node
            self.write(pod.key.name)
            self.show()

    def has_amounts(self, pod: QueuePod, node: str) -> bool:
        return self.cluster.queue.fits(pod, node, {})

    def is_current(self, name: str) -> bool:
        """Return whether the watch has shown the newest version of a pod."""
        newest = self.stored[name]["metadata"]["resourceVersion"]
        return self.cluster.queue.pods[f"uid-{name}"].version == int(newest)

    def delete(self) -> None:
        """Delete a random pod."""
        name = self.chance.choice([*self.stored])
        del self.stored[name]
        self.of_others.pop(name, None)
        self.cluster.drop(name)

    async def nominate(self) -> None:
        """Carry out a round of the nominator; some writes fail or have no response."""
        nominations = self.cluster.nominations
        for pod in nominations.end_by(self.now):
            assert pod.key.name not in self.of_others, "only own nominations are withdrawn"
            if self.is_current(pod.key.name):
                del self.stored[pod.key.name]["status"]["nominatedNodeName"]
                self.write(pod.key.name)
                nominations.withdrawn(pod.uid, self.version)
        plan = await self.cluster.plan(now=self.now)
        self.check(plan)
        for name, node in plan:
            chance = self.chance.random()
            if chance < 0.1 or not self.is_current(name):
                nominations.not_written(f"uid-{name}")
                continue
            fields: dict[str, Any] = {"f:status": {"f:nominatedNodeName": {}}}
            document = self.stored[name]
            document["status"]["nominatedNodeName"] = node
            document["metadata"]["managedFields"] = [
                {"manager": "gputopo-nominator", "fieldsV1": fields}
            ]
            self.write(name)
            if chance > 0.2:
                nominations.written(f"uid-{name}", self.version)

    def check(self, plan: list[tuple[str, str]]) -> None:
        """Check that the new nominations fit beside all others, and that no pod overtakes."""
        queue, open_ = self.cluster.queue, self.cluster.nominations.open()
        used: dict[str, Counter[str]] = {node: Counter() for node in NODES}
        for pod in queue.pods.values():
            nomination = open_.get(pod.uid)
            node = pod.node or (nomination.node if nomination else pod.nominated)
            if node:
                used[node].update(pod.amounts)
        for _, node in plan:
            for resource, amount in queue.nodes[node].allocatable.items():
                assert used[node][resource] <= amount, (node, resource)
            assert used[node][RESOURCE] <= 8000
        waiting = [pod for pod in queue.waiting() if pod.nominated is None and not pod.tried]
        names = [pod.key.name for pod in waiting if pod.uid in open_]
        chosen = [name for name, _ in plan]
        assert [name for name in names if name in chosen] == chosen
        before = waiting[: waiting.index(queue.pods[f"uid-{chosen[-1]}"])] if chosen else []
        assert all(
            pod.uid in open_ or self.now - self.created[pod.key.name] > UNUSED_SECONDS
            for pod in before
        ), "a later pod must not take its place"
        tried("nominations") if plan else None

    async def step(self) -> None:
        """Carry out one random event."""
        match self.chance.choice(("create", "create", "nominate", "schedule", "show", "rare")):
            case "create":
                self.create()
            case "nominate":
                await self.nominate()
            case "schedule":
                self.schedule()
            case "show":
                self.show()
            case _ if self.chance.random() < 0.3:
                self.cluster.nominations.clear()
            case _ if self.stored:
                self.delete()
        self.now += self.chance.choice((0.1, 5.0, 40.0))

    def nothing_is_left(self) -> None:
        """Check that only the nominations of other clients are left on tried pods."""
        for name, document in self.stored.items():
            if document["status"].get("conditions") and not document["spec"].get("nodeName"):
                left = document["status"].get("nominatedNodeName")
                assert left == self.of_others.get(name)


@fuzzed
@given(st.integers(0, 2**32))
def test_nominations_fit_and_keep_the_order_of_the_queue(seed: int) -> None:
    async def run() -> None:
        life = Life(seed)
        for _ in range(STEPS):
            await life.step()
        life.show()
        await life.nominate()
        life.show()
        life.nothing_is_left()

    asyncio.run(run())
