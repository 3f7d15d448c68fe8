"""Shows the pods of the cluster to the judge: from a watch, a poll, and the nodes themselves."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from learntest.bench import Bench
from resizetest import amounts
from resizetest.soaking import kubelet
from resizetest.soaking.judge import Judge
from resizetest.soaking.model import Expected, Finding, PodSize, Size, pod_size
from soaktest.client import RejectedError, UnavailableError

_PODS = "/api/v1/pods"
_LOOK_SECONDS = 1.0
_SAMPLE_SECONDS = 0.25
_PAUSE_SECONDS = 0.3


class Watch:
    """Shows everything to one judge, from several threads.

    Attributes:
        judge: only used by a thread that has the lock.
    """

    def __init__(self, bench: Bench, nodes: Iterable[str]) -> None:
        self._bench, self._lock, self._ended = bench, threading.Lock(), threading.Event()
        self._version = ""
        offered = {node: _offered(bench, node) for node in nodes}
        self.judge = Judge(bench.namespace, offered)
        listed = bench.client.get(_PODS)["items"]
        self._before = [pod_size(pod) for pod in listed]

    def capacity(self, node: str) -> int:
        """Return the CPUs of a node without those of the pods from before the soak."""
        others = sum(pod.counted for pod in self._before if pod.node == node and pod.live)
        return self.judge.nodes[node][0] - others

    def created(self, node: str, expected: Expected) -> None:
        """Note that a job or pod is created now."""
        with self._lock:
            self.judge.created(time.monotonic(), node, expected)

    def deleted(self, node: str, name: str) -> None:
        """Note that a job or pod is deleted now."""
        with self._lock:
            self.judge.losses.deleted(name)
            self.judge.changes.cause(time.monotonic(), node, f"{name} was deleted")

    def resized(self, uid: str, size: Size) -> None:
        """Note that another client resizes a pod now."""
        with self._lock:
            self.judge.changes.resized_by_soak(uid, size)

    def running(self, owner: str) -> PodSize | None:
        """Return the running pod of a job."""
        with self._lock:
            found = (pod for pod in self.judge.own if pod.owner == owner)
            return next((pod for pod in found if pod.phase == "Running"), None)

    def failed(self) -> dict[str, PodSize]:
        """Return the pods of the soak that have failed, by their jobs."""
        with self._lock:
            return {pod.owner: pod for pod in self.judge.own if pod.phase == "Failed"}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch, poll and sample inside the block."""
        threads = [
            threading.Thread(target=self._repeat, args=(look, pause), name=name, daemon=True)
            for name, look, pause in (
                ("watch", self._watch, 0.0),
                ("look", self._look, _LOOK_SECONDS),
                ("sample", self._sample, _SAMPLE_SECONDS),
            )
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    def _repeat(self, look: Callable[[], None], pause: float) -> None:
        while not self._ended.wait(pause):
            try:
                look()
            except RejectedError:
                self._version = ""
                time.sleep(_PAUSE_SECONDS)
            except UnavailableError:
                self._bench.journal.count("times that the API server did not respond")
                time.sleep(_PAUSE_SECONDS)

    def _watch(self) -> None:
        if not self._version:
            listed = self._bench.client.get(_PODS)
            pods = [pod_size(pod) for pod in listed["items"]]
            with self._lock:
                self._record(self.judge.replace(time.monotonic(), pods))
            self._version = listed["metadata"]["resourceVersion"]
        for kind, found in self._bench.client.watch(_PODS, self._version):
            pod = pod_size(found)
            with self._lock:
                self._record(self.judge.see(time.monotonic(), pod, deleted=kind == "DELETED"))
            self._version = found["metadata"]["resourceVersion"]

    def _look(self) -> None:
        jobs = self._bench.client.get(self._bench.jobs)["items"]
        phases = {job["metadata"]["name"]: job.get("status", {}).get("phase", "") for job in jobs}
        with self._lock:
            self._record(self.judge.look(time.monotonic(), phases))

    def _sample(self) -> None:
        for node in self.judge.nodes:
            recorded = kubelet.allocated(self._bench.machines, node)
            groups = [*kubelet.in_effect(self._bench.machines.cgroup(node))]
            with self._lock:
                self._record(self.judge.of_node(time.monotonic(), node, recorded, groups))
        self._bench.journal.count("samples of kubelet's checkpoint and of cgroups")

    def _record(self, findings: Iterable[Finding]) -> None:
        for kind, text in findings:
            self._bench.finding(kind, text)


def _offered(bench: Bench, node: str) -> tuple[int, int]:
    found = amounts.allocatable(bench.client.get(f"/api/v1/nodes/{node}"))
    return found.milli_cpu, len(bench.topologies[node]["gpus"])
