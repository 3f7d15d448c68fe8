"""Bursts of equal pods, bound in another order than created, while kubelets restart.

Kubelet's calls to a device plugin have the number of GPUs and not the pod. Equal pods are
identified only by elimination, so an error there would show as a swap here.
"""

import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from localcluster.access import NodeAccess
from soaktest import load, manifests
from soaktest.client import (
    Client,
    RejectedError,
    UnavailableError,
    create_patiently,
    patient,
)
from soaktest.journal import Journal
from soaktest.pod_watcher import PodWatcher
from soaktest.world import PodView

_GATE = "gputopo.io/soak"
_PODS = f"/api/v1/namespaces/{load.NAMESPACE}/pods"
_RUN_SECONDS = 120.0
_KUBELET_EVERY = 3


class Bursts:
    """Creates bursts that fill the cluster, one after another."""

    def __init__(
        self,
        nodes: NodeAccess,
        client: Client,
        pod_watcher: PodWatcher,
        journal: Journal,
        rng: random.Random,
        image: str,
    ) -> None:
        self._nodes, self._client, self._pod_watcher = nodes, client, pod_watcher
        self._journal, self._rng, self._image = journal, rng, image

    def run(self, pods: int, gpus_each: int, nodes: list[str]) -> None:
        """Create so many equal pods, as many at a time as fit on the nodes."""
        at_once = len(nodes) * (8 // gpus_each)
        for burst in range(-(-pods // at_once)):
            count = min(at_once, pods - burst * at_once)
            names = [f"burst-{burst}-{number}" for number in range(count)]
            self._burst(names, gpus_each, nodes, restart=burst % _KUBELET_EVERY == 0)
            self._journal.write(f"burst {burst + 1}: {count} pods of {gpus_each}")

    def _burst(self, names: list[str], gpus: int, nodes: list[str], *, restart: bool) -> None:
        """Create all in one order, have them bound in another, and compare all."""
        for name in names:
            body = manifests.pod(name, gpus, self._image, {})
            body["spec"]["schedulingGates"] = [{"name": _GATE}]
            create_patiently(self._client, _PODS, body)
        node = self._rng.choice(nodes) if restart else None
        if node:
            # Those bound to it meanwhile are all handled at its start, the oldest pod first.
            self._nodes.set_kubelet(node, on=False)
            self._journal.count("kubelet restarts")
        try:
            for name in self._rng.sample(names, len(names)):
                self._ungate(name)
            if node:
                self._wait_bound(names)
        finally:
            if node:
                self._nodes.set_kubelet(node, on=True)
        self._wait_running(names)
        self._journal.count("pods created", len(names))
        time.sleep(2.5)  # two looks of the inspector
        bound = self._pod_watcher.bound_since
        bound_at = {pod.name: bound[pod.uid] for pod in self._mine() if pod.uid in bound}
        self._journal.count(
            "pairs bound against the order of creation", inversions(bound_at, names)
        )
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._delete, names))
        self._wait_gone()

    def _ungate(self, name: str) -> None:
        change = {"spec": {"schedulingGates": None}}
        patient(lambda: self._client.patch(f"{_PODS}/{name}", change))

    def _delete(self, name: str) -> None:
        patient(lambda: self._client.delete(f"{_PODS}/{name}"))

    def _wait_bound(self, names: list[str]) -> None:
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            if sum(bool(pod.node) for pod in self._mine()) >= len(names):
                return
            time.sleep(0.1)

    def _wait_running(self, names: list[str]) -> None:
        """Wait until each runs or kubelet has rejected it, as it does until the agent is ready."""
        deadline = time.monotonic() + _RUN_SECONDS
        while time.monotonic() < deadline:
            pods = self._mine()
            phases = [pod.phase for pod in pods]
            if sum(phase in {"Running", "Failed"} for phase in phases) >= len(names):
                self._journal.count("pods that ran", phases.count("Running"))
                for pod in pods:
                    if pod.phase == "Failed":
                        self._journal.count_rejection(pod)
                return
            time.sleep(0.1)
        late = [(pod.name, pod.phase, pod.node) for pod in self._mine() if pod.phase != "Running"]
        self._journal.finding("pods that did not run", str(late))

    def _wait_gone(self) -> None:
        deadline = time.monotonic() + _RUN_SECONDS
        while time.monotonic() < deadline:
            try:
                if not self._client.get(_PODS)["items"]:
                    return
            except (UnavailableError, RejectedError):
                pass
            time.sleep(0.2)
        self._journal.finding("GPUs leaked", "pods of a burst do not end")

    def _mine(self) -> list[PodView]:
        return [pod for pod in self._pod_watcher.pods() if pod.namespace == load.NAMESPACE]


def inversions(bound_at: Mapping[str, float], made: Sequence[str]) -> int:
    """Count the pairs of which the pod that was created later was seen bound earlier.

    Args:
        bound_at: when each was seen bound first; pods without a time do not count.
        made: all names in the order of creation.
    """
    times = [bound_at[name] for name in made if name in bound_at]
    return sum(later < time for i, time in enumerate(times) for later in times[i + 1 :])
