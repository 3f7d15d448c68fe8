"""A namespace for each test, and the steps that most tests share."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import workloads
from gputopo.api.names import JOB_LABEL, POLICY_ANNOTATION
from showcase.install import Installed
from showcase.kubectl import Kubectl, KubectlError, Object, wait_for
from showcase.truth import ContainerGpus, read_containers
from soaktest.client import Client
from soaktest.final_check import counted_as_used


@contextmanager
def sandbox_in(installed: Installed, name: str) -> Iterator["Sandbox"]:
    """Create a namespace ``name``-… and remove it with all that is in it at the end."""
    namespace = f"{name}-{uuid.uuid4().hex[:6]}"
    installed.kubectl.run("create", "namespace", namespace)
    box = Sandbox(installed.kubectl, namespace, installed.workload_image)
    try:
        installed.kubectl.run("wait", "--for=create", "sa/default", "-n", namespace)
        yield box
    finally:
        box.remove()


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A namespace on the cluster."""

    kubectl: Kubectl
    namespace: str
    image: str

    def create(self, *manifests: Object) -> None:
        self.kubectl.create(*(self.placed(manifest) for manifest in manifests))

    def placed(self, manifest: Object) -> Object:
        """Return the manifest with this sandbox as its namespace."""
        return {**manifest, "metadata": {**manifest["metadata"], "namespace": self.namespace}}

    def pods(self) -> Sequence[Object]:
        return self.kubectl.list("pods", self.namespace)

    def gpus_of(self, pod: str) -> tuple[str, ...]:
        return workloads.uuids(self.kubectl.get("pod", pod, self.namespace))

    def run_pod(self, name: str, gpus: int, *, node: str | None, policy: str) -> str:
        """Create a pod, wait until it runs, and return its name."""
        annotations = {POLICY_ANNOTATION: policy}
        self.create(
            workloads.gpu_pod(name, gpus, image=self.image, node=node, annotations=annotations)
        )
        self.wait_running(1, only=name)
        return name

    def run_job(self, name: str, gpus: int, *, node: str | None = None, **spec: Any) -> Object:
        """Create a GPUJob, wait until it runs as observed, and return its placement."""
        self.create(workloads.gpu_job(name, gpus, image=self.image, node=node, **spec))

        def observed() -> Object | None:
            status = self.kubectl.get("gpujob", name, self.namespace).get("status", {})
            if status.get("phase") != "Running":
                return None
            for placement in status["placements"]:
                if sorted(placement.get("observed", [])) == sorted(placement["intended"]) != []:
                    return placement  # type: ignore[no-any-return]
            return None

        placement = wait_for(f"GPUJob {name} runs and its GPUs are observed", observed)
        self.assert_sources_agree(selector=f"{JOB_LABEL}={name}")
        return placement

    def wait_running(
        self, count: int, *, only: str | None = None, timeout_s: float = 90
    ) -> Sequence[Object]:
        """Return the pods once ``count`` of them run."""

        def running() -> Sequence[Object] | None:
            pods = [
                pod
                for pod in self.pods()
                if workloads.phase(pod) == "Running" and only in (None, pod["metadata"]["name"])
            ]
            return pods if len(pods) >= count else None

        return wait_for(f"{count} pods run in {self.namespace}", running, timeout_s=timeout_s)

    def delete_pods(self, names: Iterable[str]) -> None:
        """Delete pods and wait until they and their processes are gone."""
        doomed = list(names)
        if doomed:
            self.kubectl.run("delete", "pod", "-n", self.namespace, "--wait=true", *doomed)
            self._wait_unused(lambda pod: pod in doomed)

    def assert_sources_agree(self, *, selector: str = "") -> list[ContainerGpus]:
        """Check annotation = environment = device nodes = podresources = checkpoint."""
        pods = [
            pod
            for pod in self.kubectl.list("pods", self.namespace, selector=selector)
            if workloads.phase(pod) == "Running"
        ]
        found = read_containers(self.kubectl, pods)
        assert found, f"no running GPU container in {self.namespace} {selector}"
        assert [one for one in found if not one.agrees] == []
        return found

    def scheduling_message(self, pod: str) -> str:
        """Return the newest FailedScheduling message on a pod, empty where there is none."""
        events = [
            event
            for event in self.kubectl.list("events", self.namespace)
            if event["involvedObject"].get("name") == pod and event["reason"] == "FailedScheduling"
        ]
        return str(events[-1].get("message", "")) if events else ""

    def remove(self) -> None:
        """Delete the namespace and wait until all its objects are gone."""
        try:
            self.kubectl.run(
                "delete", "gpujobs,jobs,pods", "--all", "-n", self.namespace, "--wait=true"
            )
            self._wait_unused(lambda _: True)
        finally:
            self._delete_namespace()

    def end_jobs(self) -> None:
        """Delete all GPUJobs, and wait until their pods and processes are gone."""
        where = ("-n", self.namespace, "--wait=true")
        names = [
            pod["metadata"]["name"]
            for pod in self.kubectl.list("pods", self.namespace, selector=JOB_LABEL)
        ]
        self.kubectl.run("delete", "gpujobs,jobs", "--all", *where)
        self.kubectl.run("delete", "pods", "-l", JOB_LABEL, *where)
        self._wait_unused(lambda pod: pod in names)

    def wait_for_empty_ledgers(self) -> None:
        """Wait until no extender counts a GPU as used, by whatever pod."""
        with Client(self.kubectl.kubeconfig) as client:
            wait_for("all ledgers are empty", lambda: not counted_as_used(client))

    def _delete_namespace(self) -> None:
        try:
            self.kubectl.run("delete", "namespace", self.namespace, "--wait=false")
        except KubectlError as error:
            if "NotFound" not in str(error):
                raise

    def _wait_unused(self, wanted: Callable[[str], bool]) -> None:
        """Wait until no node publishes a GPU as used by such a pod.

        The pods of the tests have no grace period: their objects go before their processes.
        """

        def unused() -> bool:
            return not any(
                gpu.get("namespace") == self.namespace and wanted(gpu.get("pod", ""))
                for topology in self.kubectl.list("gputopologies")
                for gpu in topology.get("status", {}).get("gpus", [])
            )

        wait_for(f"no GPU is used by deleted pods of {self.namespace}", unused)
