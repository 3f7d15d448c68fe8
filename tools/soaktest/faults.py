"""The kills, dealt by seed: what dies when, and what brings it back."""

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from localcluster import containers
from localcluster.cluster import Cluster
from localcluster.errors import ClusterError
from showcase.install import NAMESPACE
from soaktest.client import AwayError, Client, RefusedError
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
}
_PROGRAMS = {
    "node agent": "gputopo-deviceplugin",
    "extender": "gputopo-extender",
    "scheduler": "kube-scheduler",
    "operator": "gputopo-operator",
}
_PODS = {"agent pod": "deviceplugin", "scheduler pod": "scheduler"}
_ON_ITS_NODE = frozenset({"kubelet", "node"})


@dataclass(frozen=True, slots=True)
class Fault:
    """One kill to come.

    Attributes:
        what: one of the kinds.
        node: where, for what is on nodes.
        down_seconds: how long it stays away, where that is ours to say.
    """

    what: str
    node: str
    down_seconds: float


def deal(rng: random.Random, nodes: list[str]) -> Iterator[Fault]:
    """Yield kills for ever: each pack has every kind as often as it weighs, in random order."""
    kinds = [what for what, weight in _WEIGHTS.items() for _ in range(weight)]
    while True:
        for what in rng.sample(kinds, len(kinds)):
            yield Fault(what, rng.choice(nodes), rng.uniform(0, 5))


class Killer:
    """Carries the kills out in a thread of its own, one after another."""

    def __init__(
        self, cluster: Cluster, client: Client, journal: Journal, rng: random.Random
    ) -> None:
        self._cluster, self._client, self._journal, self._rng = cluster, client, journal, rng
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, nodes: list[str], every_seconds: float) -> None:
        """Begin: a kill every so many seconds on average, the first after half of that."""

        def run() -> None:
            wait = every_seconds / 2
            faults = deal(self._rng, nodes)
            while not self._ended.wait(wait):
                self.carry_out(next(faults))
                wait = self._rng.uniform(0.5, 1.5) * every_seconds

        self._thread = threading.Thread(target=run, name="kill", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, when what was killed last is back."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def carry_out(self, fault: Fault) -> None:
        """Kill, and bring back what does not come back by itself."""
        where = f" on {fault.node}" if fault.what in _ON_ITS_NODE else ""
        try:
            what = self._kill(fault)
        except (AwayError, RefusedError, ClusterError) as error:
            self._journal.tell(f"kill {fault.what}{where}: not done, {error}")
            return
        self._journal.count("kills")
        self._journal.count(f"kills: {fault.what}")
        self._journal.tell(f"kill {fault.what}{where}: {what}")

    def _kill(self, fault: Fault) -> str:
        if fault.what in _PROGRAMS:
            return self._kill_program(_PROGRAMS[fault.what], fault.node)
        if fault.what in _PODS:
            return self._delete_pod(_PODS[fault.what], fault.node)
        if fault.what == "kubelet":
            return self._off_and_on(fault, self._kubelet(fault.node))
        if fault.what == "node":
            return self._off_and_on(fault, self._node(fault.node))
        return self._off_and_on(fault, lambda on: self._cluster.set_part(fault.what, on=on))

    def _kill_program(self, program: str, node: str) -> str:
        """Kill its process on this node, or another one where it does not run there."""
        at = containers.nodes_of(program)
        if not at:
            raise ClusterError("it is down already")
        chosen = node if node in at else min(at)
        killed = containers.kill(program, chosen)
        return f"{killed} process of {chosen}, of those on {' '.join(sorted(at))}"

    def _off_and_on(self, fault: Fault, switch: Callable[[bool], None]) -> str:
        switch(False)
        self._ended.wait(fault.down_seconds)
        switch(True)
        return f"away for {fault.down_seconds:.1f} s and its start"

    def _kubelet(self, node: str) -> Callable[[bool], None]:
        return lambda on: self._cluster.set_kubelet(node, on=on)

    def _node(self, node: str) -> Callable[[bool], None]:
        return lambda on: self._cluster.node_on(node) if on else self._cluster.node_off(node)

    def _delete_pod(self, component: str, node: str) -> str:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        selector = f"app.kubernetes.io/component={component}"
        pods = self._client.get(path, labelSelector=selector)["items"]
        if not pods:
            raise ClusterError("it is gone already")
        chosen = next((pod for pod in pods if pod["spec"].get("nodeName") == node), pods[0])
        name = chosen["metadata"]["name"]
        self._client.delete(f"{path}/{name}")
        return f"deleted {name}"
