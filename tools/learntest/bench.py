"""The cluster of an experiment: starts runs, and reads what gputopo has learnt."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from gputopo.api.names import JOB_LABEL
from gputopo.api.profile import GPUProfileStatus
from learntest import manifests, profiles
from learntest.manifests import Run
from localcluster.access import NodeAccess
from localcluster.cluster import Cluster
from localcluster.settings import current_paths
from showcase.install import Installed
from showcase.kubectl import wait_for
from soaktest import namespace
from soaktest.client import Client, Object, RejectedError, UnavailableError
from soaktest.journal import Journal, failures_of_threads

_START_SECONDS = 120.0
_END_SECONDS = 90.0
_GROUP = "/apis/gputopo.io/v1alpha1"
_TOPOLOGIES = f"{_GROUP}/gputopologies"


@dataclass(slots=True)
class Bench:
    """Helpers of all experiments.

    Attributes:
        namespace: of the runs.
        topologies: ``GPUTopology.spec`` by name of the node.
        seen: what the experiment reports, by name.
    """

    installed: Installed
    cluster: Cluster
    client: Client
    journal: Journal
    namespace: str
    topologies: Mapping[str, Object]
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def machines(self) -> NodeAccess:
        """The nodes as machines."""
        return self.installed.nodes

    @property
    def jobs(self) -> str:
        """Path of the GPUJobs."""
        return f"{_GROUP}/namespaces/{self.namespace}/gpujobs"

    @property
    def pods(self) -> str:
        """Path of the pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def create(self, run: Run) -> None:
        """Create the GPUJob or the pod of a run."""
        image = self.installed.trainer_image
        if run.plain:
            self.client.create(self.pods, manifests.pod(run, image))
        else:
            self.client.create(self.jobs, manifests.job(run, image))

    def start(self, *runs: Run) -> None:
        """Create runs one after another, each when the pod of the former one runs."""
        for run in runs:
            self.create(run)
            self.await_run(run.name)

    def await_run(self, job: str, seconds: float = _START_SECONDS) -> None:
        """Wait until the pod of a GPUJob runs.

        Raises:
            TimeoutError: it does not run in time.
        """
        wait_for(f"{job} runs", lambda: self.runs(job), timeout_s=seconds)

    def runs(self, job: str) -> bool:
        """Whether the pod of a GPUJob runs."""
        pod = self.pod_of(job)
        return pod is not None and pod["status"].get("phase") == "Running"

    def pod_of(self, job: str) -> Object | None:
        """Return the newest pod of a GPUJob, or the pod of this name.

        None if there is no such pod, or without the API server.
        """
        try:
            found = (
                self.client.get(self.pods, labelSelector=f"{JOB_LABEL}={job}")["items"]
                or self.client.get(self.pods, fieldSelector=f"metadata.name={job}")["items"]
            )
        except (UnavailableError, RejectedError):
            return None
        # Pods that kubelet has rejected stay beside the pod that replaces them.
        return max(found, key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)

    def end(self, jobs: Iterable[str]) -> None:
        """Delete GPUJobs or pods, and wait until no GPU is used in the namespace."""
        for job in jobs:
            self.client.delete(f"{self.jobs}/{job}")
            self.client.delete(f"{self.pods}/{job}")
        wait_for("the GPUs are free", self._unused, timeout_s=_END_SECONDS)

    def status_of(self, profile: str) -> GPUProfileStatus:
        """Return the status of a GPUProfile."""
        path = f"{_GROUP}/namespaces/{self.namespace}/gpuprofiles/{profile}"
        return profiles.status_of(self.client.get(path))

    def profiles(self) -> list[Object]:
        """Return all GPUProfiles of the namespace."""
        path = f"{_GROUP}/namespaces/{self.namespace}/gpuprofiles"
        found: list[Object] = self.client.get(path)["items"]
        return found

    def steps_of(self, pod: str, port: int) -> int:
        """Return the steps that the pod's own counter shows."""
        return steps_in(self.metrics_of(pod, port))

    def metrics_of(self, pod: str, port: int) -> str:
        """Return the metrics that the pod itself serves."""
        return self.client.text(f"{self.pods}/{pod}:{port}/proxy/metrics")

    def publish(self, profile: str, status: Object) -> None:
        """Write what is known of a workload into a GPUProfile, which is created if missing."""
        path = f"{_GROUP}/namespaces/{self.namespace}/gpuprofiles"
        try:
            self.client.create(path, manifests.profile(profile))
        except RejectedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        self.client.patch_as_operator(f"{path}/{profile}/status", {"status": status})

    def resize(self, pod: Object, milli_cpu: int) -> None:
        """Change request and limit of CPUs of a running pod with one container."""
        resources = pod["spec"]["containers"][0]["resources"]
        for amounts in (resources["requests"], resources["limits"]):
            amounts["cpu"] = f"{milli_cpu}m"
        change = {"spec": {"containers": pod["spec"]["containers"]}}
        self.client.patch(f"{self.pods}/{pod['metadata']['name']}/resize", change)

    def node_with(self, fits: Callable[[set[str]], bool]) -> str:
        """Return the node whose kinds of links fit."""
        return next(
            node
            for node, spec in sorted(self.topologies.items())
            if fits({f"{link['kind']}{link['count']}" for link in spec["links"]})
        )

    def report(self, text: str) -> None:
        """Report progress."""
        self.journal.write(text)

    def finding(self, kind: str, text: str) -> None:
        """Record an error."""
        self.journal.finding(kind, text)

    def _unused(self) -> bool:
        return not any(
            gpu.get("namespace") == self.namespace
            for topology in self.client.get(_TOPOLOGIES)["items"]
            for gpu in topology.get("status", {}).get("gpus", [])
        )


def steps_in(metrics: str) -> int:
    """Return the steps in the metrics of a training job."""
    return int(re.findall(r"^training_steps_total (\d+)$", metrics, re.MULTILINE)[0])


@contextmanager
def bench(installed: Installed, cluster: Cluster, own: str, log: Path) -> Iterator[Bench]:
    """Give an experiment the namespace ``own``, which is deleted afterwards."""
    journal = Journal(log, append=True)
    with failures_of_threads(journal), Client(current_paths().kubeconfig) as client:
        namespace.create(client, own)
        listed = client.get(_TOPOLOGIES)["items"]
        topologies = {each["metadata"]["name"]: each["spec"] for each in listed}
        try:
            yield Bench(installed, cluster, client, journal, own, topologies)
        finally:
            namespace.remove(client, own)
            journal.close()
