"""One node on which fault steps run: starts pods, takes up memory, changes kubelet."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from gputopo.api.names import RESOURCE
from learntest.bench import Bench
from resizetest import amounts, faultpods, sight
from resizetest.amounts import Amount
from resizetest.faultpods import Worker
from resizetest.sight import Expected, Sight
from showcase.kubectl import wait_for
from soaktest.client import Object, RejectedError, UnavailableError

_READY_SECONDS = 120.0
_STAYS_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Stage:
    """The node of the steps, and their cluster."""

    bench: Bench
    node: str

    def start_job(self, worker: Worker) -> None:
        """Create a GPUJob, and wait until its pod runs."""
        self.bench.client.create(self.bench.jobs, faultpods.job(worker, self._trainer))
        self.bench.await_run(worker.name)

    def start_pod(self, worker: Worker) -> None:
        """Create a plain pod, and wait until it runs."""
        self._create(faultpods.pod(worker, self._trainer))
        self._await_pod(worker.name)

    def fill(self, name: str, memory: int, *, fits: bool) -> None:
        """Create a pod of the default scheduler that requests memory; wait for it if it fits."""
        self._create(faultpods.filler(name, self.node, memory, self.bench.installed.workload_image))
        if fits:
            self._await_pod(name)

    def remove(self, *pods: str) -> None:
        """Delete pods, and wait until they are gone."""
        for name in pods:
            self.bench.client.delete(f"{self.bench.pods}/{name}")
            wait_for(f"{name} is gone", lambda: not self._find(name))  # noqa: B023 - called at once

    def clear(self) -> None:
        """Delete all jobs and pods of the experiment, and wait until they are gone."""
        profiles = self.bench.jobs.replace("gpujobs", "gpuprofiles")
        for path in (self.bench.jobs, self.bench.pods, profiles):
            self.bench.client.delete(path)
        wait_for("all pods are gone", lambda: not self.bench.client.get(self.bench.pods)["items"])

    def check(self, step: str, name: str, expected: Expected, seconds: float = 120.0) -> Sight:
        """Wait until a pod is as expected; see :func:`resizetest.sight.check`."""
        return sight.check(self.bench, step, name, expected, seconds)

    def check_stays(
        self, step: str, name: str, expected: Expected, seconds: float = _STAYS_SECONDS
    ) -> None:
        """Check that a pod is still as expected after some time."""
        time.sleep(seconds)
        for each in sight.differences(sight.look(self.bench, name), expected):
            self.bench.finding("promise broken", f"{step}, {seconds:.0f} s later: {name}: {each}")

    def free(self) -> Amount:
        """Return what kube-scheduler can still give to pods of the node."""
        used = Amount()
        for pod in self.pods():
            used = used.plus(amounts.read(pod).counted)
        has = self.allocatable()
        return Amount(has.milli_cpu - used.milli_cpu, has.memory - used.memory)

    def allocatable(self) -> Amount:
        """Return what the node offers to pods."""
        return amounts.allocatable(self._node())

    def free_gpus(self) -> int:
        """Return how many GPUs of the node no pod uses."""
        path = f"/apis/gputopo.io/v1alpha1/gputopologies/{self.node}"
        gpus = self.bench.client.get(path)["status"]["gpus"]
        return sum("podUID" not in gpu for gpu in gpus)

    def pods(self) -> list[Object]:
        """Return the pods of the node that hold amounts of it."""
        listed = self.bench.client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={self.node}")
        return [pod for pod in listed["items"] if amounts.holds(pod)]

    @contextmanager
    def kubelet(self, changes: Mapping[str, Any]) -> Iterator[None]:
        """Change the configuration of the node's kubelet inside the block."""
        gpus = len(self.bench.topologies[self.node]["gpus"])
        try:
            self._configure(changes, gpus)
            yield
        finally:
            self._configure({}, gpus)

    def _configure(self, changes: Mapping[str, Any], gpus: int) -> None:
        self.bench.report(f"kubelet of {self.node}: {dict(changes) or 'its own configuration'}")
        self.bench.machines.configure_kubelet(self.node, changes)
        wait_for(f"{self.node} is ready", lambda: self._is_ready(gpus), timeout_s=_READY_SECONDS)

    def _is_ready(self, gpus: int) -> bool:
        try:
            status = self._node()["status"]
        except (UnavailableError, RejectedError):
            return False
        ready = any(it["type"] == "Ready" and it["status"] == "True" for it in status["conditions"])
        return ready and int(status["allocatable"].get(RESOURCE, 0)) == gpus

    def _node(self) -> Object:
        return self.bench.client.get(f"/api/v1/nodes/{self.node}")

    def _create(self, manifest: Object) -> None:
        self.bench.client.create(self.bench.pods, manifest)

    def _await_pod(self, name: str) -> None:
        def runs() -> bool:
            return any(pod["status"].get("phase") == "Running" for pod in self._find(name))

        wait_for(f"{name} runs", runs)

    def _find(self, name: str) -> list[Object]:
        listed = self.bench.client.get(self.bench.pods)["items"]
        return [pod for pod in listed if pod["metadata"]["name"] == name]

    @property
    def _trainer(self) -> str:
        return self.bench.installed.trainer_image


def with_event(expected: Expected, *reasons: str, **changes: Any) -> Expected:  # noqa: ANN401
    """Return what is expected after further events."""
    return replace(expected, events=[*expected.events, *reasons], **changes)
