"""Creates the pods of the run, and checks the pods that must survive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gputopo_explain.placed.replay import Replay
from showcase.kubectl import Kubectl, Object, wait_for
from showcase.truth import read_containers
from upgradetest import workloads
from upgradetest.explained import replays
from upgradetest.snapshot import PodRecord, changes, record
from upgradetest.workloads import KEPT, NAMESPACE, POD_COUNT

_CREATE_SECONDS = 120


@dataclass(slots=True)
class TrialPods:
    """The pods of one run.

    Attributes:
        before: records of the pods that must survive.
    """

    kubectl: Kubectl
    image: str
    before: Mapping[str, PodRecord] = field(default_factory=dict)

    def start(self) -> None:
        """Create the pods that must survive, and record them when all run."""
        self.kubectl.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        self.kubectl.run("wait", "--for=create", "sa/default", "-n", NAMESPACE)
        self.kubectl.create(*workloads.kept_workloads(self.image))
        self.before = record(self._running(KEPT, POD_COUNT))

    def survived(self) -> list[str]:
        """Return what has changed of the pods that must survive, and sources that disagree."""
        pods = self._listed(KEPT)
        return [*changes(self.before, record(pods)), *self._disagreements(pods)]

    def explained(self) -> dict[str, Replay]:
        """Repeat the decisions about the pods that survive, as ``gputopo explain`` does."""
        return replays(self.kubectl, self._listed(KEPT))

    def place_new(self, run: str) -> list[str]:
        """Create a pod and a GPUJob, compare their sources, and delete them again."""
        manifests = workloads.new_workloads(self.image, run)
        self.kubectl.create(*manifests)
        return self._compare_and_delete(run, len(manifests), manifests)

    def begin_transition(self, run: str) -> list[Object]:
        """Create pods while the components are about to be replaced; do not wait for them."""
        manifests = workloads.transition_workloads(self.image, run)
        self.kubectl.create(*manifests)
        return manifests

    def end_transition(self, run: str, manifests: Sequence[Object]) -> tuple[list[str], int]:
        """Wait for the pods of a transition; return problems, and how many kubelet rejected."""
        replicas = sum(each["spec"]["replicas"] for each in manifests)
        self._running(run, replicas)
        rejected = sum(pod["status"].get("phase") == "Failed" for pod in self._listed(run))
        return self._compare_and_delete(run, replicas, manifests), rejected

    def remove(self) -> None:
        """Delete all pods of the run, in the order of the documentation of the removal."""
        self.kubectl.run("delete", "gpujobs", "--all", "-n", NAMESPACE, "--ignore-not-found")
        self.kubectl.run("delete", "namespace", NAMESPACE, "--ignore-not-found", timeout_s=180)

    def _compare_and_delete(self, run: str, count: int, manifests: Sequence[Object]) -> list[str]:
        problems = self._disagreements(self._running(run, count))
        for each in manifests:
            name = each["metadata"]["name"]
            self.kubectl.run("delete", each["kind"].lower(), name, "-n", NAMESPACE)
        wait_for(f"no pod of {run} is left", lambda: not self._listed(run))
        return problems

    def _running(self, run: str, count: int) -> Sequence[Object]:
        def running() -> Sequence[Object] | None:
            pods = [pod for pod in self._listed(run) if pod["status"].get("phase") == "Running"]
            return pods if len(pods) == count else None

        return wait_for(f"{count} pods of {run} run", running, timeout_s=_CREATE_SECONDS)

    def _listed(self, run: str) -> Sequence[Object]:
        return self.kubectl.list("pods", NAMESPACE, selector=f"run={run}")

    def _disagreements(self, pods: Sequence[Object]) -> list[str]:
        return [
            f"pod {each.pod}: annotation {each.annotated}, environment {each.visible},"
            f" device nodes {sorted(each.device_nodes)}, pod-resources {sorted(each.podresources)},"
            f" checkpoint {sorted(each.checkpoint)}"
            for each in read_containers(self.kubectl, pods)
            if not each.agrees
        ]
