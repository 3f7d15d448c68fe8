"""The cluster in which the checks cause alerts."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from localcluster.access import NodeAccess
from showcase.install import NAMESPACE as SYSTEM
from showcase.install import Installed
from showcase.kubectl import wait_for
from soaktest.client import Client, Object, RejectedError, UnavailableError

NAMESPACE: Final = "gputopo-monitoring"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS: Final = f"/apis/gputopo.io/v1alpha1/namespaces/{NAMESPACE}/gpujobs"
TOPOLOGIES: Final = "/apis/gputopo.io/v1alpha1/gputopologies"
SYSTEM_PODS: Final = f"/api/v1/namespaces/{SYSTEM}/pods"
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"

_START_SECONDS: Final = 90.0


@contextmanager
def repeating(seconds: float, action: Callable[[int], None]) -> Iterator[None]:
    """Call ``action`` with 1, 2, ... in a thread, with pauses; the API server may reject it."""
    ended = threading.Event()

    def run() -> None:
        number = 0
        while not ended.wait(seconds):
            number += 1
            with suppress(RejectedError, UnavailableError):
                action(number)

    thread = threading.Thread(target=run, name="repeating")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster with gputopo, and the node on which the checks cause faults.

    Attributes:
        node: name of a node with GPUs that other users of the cluster do not need.
        slow: name of a node whose links differ, for the alert about lost bandwidth.
    """

    installed: Installed
    client: Client
    node: str
    slow: str

    @property
    def machines(self) -> NodeAccess:
        """The nodes as machines."""
        return self.installed.nodes

    @property
    def image(self) -> str:
        """Image of pods that only sleep."""
        return self.installed.workload_image

    @property
    def runs_mps(self) -> bool:
        """Whether pods can share GPUs."""
        return bool(self.get(SYSTEM_PODS, labelSelector="app.kubernetes.io/component=mps")["items"])

    def get(self, path: str, **query: str) -> Object:
        """Return an object or a list, after as many tries as the API server needs."""
        return wait_for(f"a response to {path}", lambda: self._find(path, **query))

    def create(self, manifest: Object) -> Object:
        """Create a pod."""
        return self.client.create(PODS, manifest)

    def start(self, manifest: Object) -> Object:
        """Create a pod and return it once it runs.

        Raises:
            TimeoutError: it does not run.
        """
        name = self.create(manifest)["metadata"]["name"]
        return self.await_running(name)

    def await_running(self, name: str) -> Object:
        """Return the pod once it runs."""

        def running() -> Object | None:
            found = self._find(f"{PODS}/{name}")
            return found if found and found["status"].get("phase") == "Running" else None

        return wait_for(f"pod {name} runs", running, timeout_s=_START_SECONDS)

    def log(self, name: str) -> str:
        """Return the output of a pod; empty while it has none."""
        try:
            return self.client.text(f"{PODS}/{name}/log")
        except (UnavailableError, RejectedError):
            return ""

    def remove_pods(self) -> None:
        """Delete all pods and GPUJobs of the checks, and wait until they are gone."""

        def gone() -> bool:
            try:
                self.client.delete(JOBS)
                self.client.delete(PODS)
                return not self.client.get(PODS)["items"]
            except (UnavailableError, RejectedError):
                return False

        wait_for("the pods of the checks are gone", gone, timeout_s=_START_SECONDS, interval_s=1)

    def agent(self) -> Object:
        """Return the pod of the agent of ``node``."""
        selector = "app.kubernetes.io/component=deviceplugin"
        pods = self.get(SYSTEM_PODS, labelSelector=selector)["items"]
        found: Object = next(pod for pod in pods if pod["spec"].get("nodeName") == self.node)
        return found

    def inside(self, *command: str) -> None:
        """Run a command inside ``node``."""
        self.machines.run(self.node, *command)

    def scale(self, deployment: str, replicas: int) -> None:
        """Set the number of pods of a Deployment of gputopo."""
        self.client.patch(f"{DEPLOYMENTS}/{deployment}", {"spec": {"replicas": replicas}})

    @contextmanager
    def patched(
        self, path: str, change: Mapping[str, Any], back: Mapping[str, Any]
    ) -> Iterator[None]:
        """Change an object for the time of the block."""
        self.client.patch(path, change)
        try:
            yield
        finally:
            self.client.patch(path, back)

    def _find(self, path: str, **query: str) -> Object | None:
        try:
            return self.client.get(path, **query)
        except (UnavailableError, RejectedError):
            return None


@contextmanager
def without_rule(site: Site, role: str, resource: str) -> Iterator[None]:
    """Remove the rules about a resource from a ClusterRole for the time of the block."""
    rules = site.get(f"{ROLES}/{role}")["rules"]
    left = [rule for rule in rules if resource not in rule["resources"]]
    with site.patched(f"{ROLES}/{role}", {"rules": left}, {"rules": rules}):
        yield
