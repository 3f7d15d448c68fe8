"""Faults in a random order that the seed determines, and their repair."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from localcluster import access
from localcluster.cluster import Cluster
from localcluster.errors import ClusterError
from localcluster.packets import dropped
from showcase.install import NAMESPACE
from soaktest.client import Client, Object, RejectedError, UnavailableError
from soaktest.journal import Journal

_WEIGHTS = {
    "kubelet": 5,
    "node agent": 4,
    "extender": 4,
    "scheduler": 3,
    "operator": 3,
    "agent pod": 2,
    "scheduler pod": 2,
    "kube-apiserver": 3,
    "etcd": 2,
    "kube-controller-manager": 1,
    "node": 1,
    "node object": 1,
    "agent's network": 2,
}
_PROGRAMS = {
    "node agent": "gputopo-deviceplugin",
    "extender": "gputopo-extender",
    "scheduler": "kube-scheduler",
    "operator": "gputopo-operator",
}
_PODS = {"agent pod": "deviceplugin", "scheduler pod": "scheduler"}
_ON_ITS_NODE = frozenset({"kubelet", "node", "node object", "agent's network"})
_SHORTEST_LOSS_SECONDS = 10.0
_LOSS_PER_SECOND_DOWN = 10.0
_COLLECTED_SECONDS = 90.0  # the pod garbage collector waits 40 s and looks every 20
_COLLECTED_ABOVE_SECONDS = 2.5


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault.

    Attributes:
        what: one of the kinds.
        node: its node, for parts of nodes.
        down_seconds: how long it is down, if this tool starts it again.
    """

    what: str
    node: str
    down_seconds: float


def deal(rng: random.Random, nodes: list[str]) -> Iterator[Fault]:
    """Yield faults without end: each pack has every kind as often as its weight, shuffled."""
    kinds = [what for what, weight in _WEIGHTS.items() for _ in range(weight)]
    while True:
        for what in rng.sample(kinds, len(kinds)):
            yield Fault(what, rng.choice(nodes), rng.uniform(0, 5))


class Killer:
    """Causes the faults in its own thread, one after another."""

    def __init__(
        self, cluster: Cluster, client: Client, journal: Journal, rng: random.Random
    ) -> None:
        self._cluster, self._client, self._journal, self._rng = cluster, client, journal, rng
        self._nodes = cluster.nodes
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, nodes: list[str], every_seconds: float) -> None:
        """Start: a fault every so many seconds on average, the first after half of that."""

        def run() -> None:
            wait = every_seconds / 2
            faults = deal(self._rng, nodes)
            while not self._ended.wait(wait):
                self.carry_out(next(faults))
                wait = self._rng.uniform(0.5, 1.5) * every_seconds

        self._thread = threading.Thread(target=run, name="kill", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the last fault is repaired."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def carry_out(self, fault: Fault) -> None:
        """Kill the target, and start it again if nothing else does."""
        where = f" on {fault.node}" if fault.what in _ON_ITS_NODE else ""
        try:
            what = self._kill(fault)
        except (UnavailableError, RejectedError, ClusterError) as error:
            self._journal.write(f"kill {fault.what}{where}: not done, {error}")
            return
        self._journal.count("kills")
        self._journal.count(f"kills: {fault.what}")
        self._journal.write(f"kill {fault.what}{where}: {what}")

    def _kill(self, fault: Fault) -> str:
        if fault.what in _PROGRAMS:
            return self._kill_program(_PROGRAMS[fault.what], fault.node)
        if fault.what in _PODS:
            return self._delete_pod(_PODS[fault.what], fault.node)
        if fault.what == "node object":
            return self._delete_node(fault)
        if fault.what == "agent's network":
            return self._cut_agent(fault)
        return self._off_and_on(fault, self._switch(fault))

    def _kill_program(self, program: str, node: str) -> str:
        """Kill its process on this node, or on another one if it does not run here."""
        at = access.nodes_of(self._nodes, program)
        if not at:
            raise ClusterError("it is down already")
        chosen = node if node in at else min(at)
        killed = access.kill(self._nodes, program, chosen)
        return f"{killed} process of {chosen}, of those on {' '.join(sorted(at))}"

    def _off_and_on(self, fault: Fault, switch: Callable[[bool], None]) -> str:
        switch(False)
        self._ended.wait(fault.down_seconds)
        switch(True)
        return f"away for {fault.down_seconds:.1f} s and its start"

    def _switch(self, fault: Fault) -> Callable[[bool], None]:
        if fault.what == "kubelet":
            return lambda on: self._nodes.set_kubelet(fault.node, on=on)
        if fault.what == "node":
            return lambda on: self._nodes.set_power(fault.node, on=on)
        return lambda on: self._cluster.set_part(fault.what, on=on)

    def _delete_node(self, fault: Fault) -> str:
        """Delete the Node object, and have kubelet register it again.

        In half of the cases only after the pods of the missing node were removed.
        """
        waited = "at once"
        try:
            self._client.delete(f"/api/v1/nodes/{fault.node}")
            if fault.down_seconds > _COLLECTED_ABOVE_SECONDS:
                waited = f"after {self._wait_collected(fault.node):.0f} s"
        finally:  # a request without an answer may have been carried out
            self._nodes.set_kubelet(fault.node, on=False)
            self._nodes.set_kubelet(fault.node, on=True)
        return f"Node deleted, kubelet restarted {waited}"

    def _wait_collected(self, node: str) -> float:
        """Wait until the pods of a deleted Node are removed; return the seconds."""
        began = time.monotonic()
        while time.monotonic() - began < _COLLECTED_SECONDS and not self._ended.wait(1):
            try:
                left = self._client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
            except (UnavailableError, RejectedError):
                continue
            if not left["items"]:
                break
        return time.monotonic() - began

    def _cut_agent(self, fault: Fault) -> str:
        """Drop the packets between one agent and the API server for 10 to 60 s."""
        on_node = (
            pod for pod in self._pods("deviceplugin") if pod["spec"].get("nodeName") == fault.node
        )
        address = next((pod["status"].get("podIP", "") for pod in on_node), "")
        if not address:
            raise ClusterError("there is no agent's pod with an address")
        seconds = _SHORTEST_LOSS_SECONDS + _LOSS_PER_SECOND_DOWN * fault.down_seconds
        with dropped(self._nodes, fault.node, address):
            self._ended.wait(seconds)
        return f"no packets between {address} and the API server for {seconds:.0f} s"

    def _pods(self, component: str) -> list[Object]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        selector = f"app.kubernetes.io/component={component}"
        found: list[Object] = self._client.get(path, labelSelector=selector)["items"]
        return found

    def _delete_pod(self, component: str, node: str) -> str:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        pods = self._pods(component)
        if not pods:
            raise ClusterError("it is gone already")
        chosen = next((pod for pod in pods if pod["spec"].get("nodeName") == node), pods[0])
        name = chosen["metadata"]["name"]
        self._client.delete(f"{path}/{name}")
        return f"deleted {name}"
