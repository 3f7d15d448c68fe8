"""The cluster of a scenario, with all watchers."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from faulttest.pods import PODS
from gputopo.api.names import RESOURCE
from localcluster.access import NodeAccess
from localcluster.cluster import Cluster
from localcluster.settings import Paths
from showcase.install import Installed
from showcase.kubectl import wait_for
from soaktest.client import (
    Client,
    Object,
    RejectedError,
    UnavailableError,
    create_patiently,
    patient,
)
from soaktest.journal import Journal
from soaktest.pod_watcher import PodWatcher
from soaktest.reasons import kind_of
from soaktest.sampler import Sampler
from soaktest.world import PodView

Value = TypeVar("Value")

START_SECONDS = 60.0
_SAMPLE_SECONDS = 15.0
_TOPOLOGIES = "/apis/gputopo.io/v1alpha1/gputopologies"


@dataclass(slots=True)
class Bench:
    """Helpers of all scenarios.

    Attributes:
        nodes: names of the nodes with GPUs.
        seen: what the scenario reports, by name.
    """

    installed: Installed
    cluster: Cluster
    paths: Paths
    client: Client
    pod_watcher: PodWatcher
    sampler: Sampler
    journal: Journal
    nodes: list[str]
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def machines(self) -> NodeAccess:
        """The nodes as machines."""
        return self.installed.nodes

    @property
    def image(self) -> str:
        """Image of the scenarios' pods."""
        return self.installed.workload_image

    def finding(self, kind: str, text: str) -> None:
        """Record an error."""
        self.journal.finding(kind, text)

    def create(self, manifest: Object, path: str = PODS) -> str:
        """Create an object, by default a pod, and return its UID."""
        uid: str = create_patiently(self.client, path, manifest)["metadata"]["uid"]
        return uid

    def start(self, manifest: Object) -> str:
        """Create a pod, wait until it runs and its container was sampled, and return its UID.

        Raises:
            TimeoutError: it does not run.
        """
        uid = self.create(manifest)
        name = manifest["metadata"]["name"]
        wait_for(f"pod {name} runs", lambda: self.runs(uid), timeout_s=START_SECONDS)
        return uid

    def runs(self, uid: str) -> bool:
        """Whether the pod is Running and a process of it was seen."""
        pod = self.pod_watcher.pod(uid)
        return pod is not None and pod.phase == "Running" and bool(self.sampler.of_pod(uid))

    def still_runs(self, uid: str) -> bool:
        """Whether a process of the pod is in a later sample; if not, record that it is lost."""
        now, name = time.monotonic(), self.pod_watcher.seen[uid].name

        def is_sampled() -> bool:
            return not self.failed(uid) and self.sampler.of_pod(uid)[-1].last > now

        what = f"{name} is not Failed and has a process"
        return self.reach(what, is_sampled, _SAMPLE_SECONDS, "running pods lost") is not None

    def failed(self, uid: str) -> PodView | None:
        """Return the pod if it is Failed."""
        pod = self.pod_watcher.seen.get(uid)
        return pod if pod is not None and pod.phase == "Failed" else None

    def judge_failed(self, uids: Iterable[str]) -> None:
        """Find the pods that are Failed, once for each reason."""
        failed = [pod for uid in uids if (pod := self.failed(uid))]
        for reason, number in Counter(kind_of(pod.why) for pod in failed).items():
            example = next(pod for pod in failed if kind_of(pod.why) == reason)
            self.finding("pods Failed", f"{number}, {example.name} among them: {example.why}")

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a pod; ``force`` removes the object at once, whatever its processes do."""
        grace = {"gracePeriodSeconds": "0"} if force else {}
        self.patient(lambda: self.client.delete(f"{PODS}/{name}", **grace))

    def remove_pods(self) -> None:
        """Delete the pods of the scenario and wait until they and their processes are gone."""

        def gone() -> bool:
            self.client.delete(PODS)
            return not self.client.get(PODS)["items"]

        self.reach("the scenario's pods are gone", gone)

    def live(self, node: str | None = None) -> int:
        """Return how many GPUs are in containers with a live process."""
        horizon = time.monotonic() - 0.5
        return len(
            {
                (life.node, gpu)
                for life in list(self.sampler.lives.values())
                if life.last > horizon and node in {None, life.node}
                for gpu in life.gpus
            }
        )

    def topology(self, node: str) -> Object:
        """Return the node's GPUTopology."""
        return self.client.get(f"{_TOPOLOGIES}/{node}")

    def healthy(self, node: str) -> int:
        """Return how many GPUs of the node are published as healthy."""
        return sum(gpu["healthy"] for gpu in self.topology(node)["status"]["gpus"])

    def allocatable(self, node: str) -> int:
        """Return how many GPUs kubelet reports as allocatable."""
        status = self.client.get(f"/api/v1/nodes/{node}")["status"]
        return int(status.get("allocatable", {}).get(RESOURCE, 0))

    def is_idle(self) -> bool:
        """Whether all GPUs of all nodes are healthy, free and allocatable."""
        for node in self.nodes:
            gpus = self.topology(node)["status"]["gpus"]
            if self.allocatable(node) != len(gpus):
                return False
            if any("podUID" in gpu or not gpu["healthy"] for gpu in gpus):
                return False
        return True

    def reach(
        self, what: str, look: Callable[[], bool], seconds: float = 60.0, kind: str = "not reached"
    ) -> float | None:
        """Return the seconds until a condition is true; otherwise record an error."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            try:
                if look():
                    return time.monotonic() - began
            except (UnavailableError, RejectedError):
                pass
            time.sleep(0.1)
        self.finding(kind, f"{what}: not within {seconds:g} s")
        return None

    def patient(self, call: Callable[[], Value]) -> Value:
        """Repeat a request while the API server does not respond.

        Raises:
            UnavailableError: no response for a minute.
        """
        return patient(call)

    def report(self, text: str) -> None:
        """Report progress."""
        self.journal.write(text)
