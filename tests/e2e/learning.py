"""Training jobs that run side by side, and what gputopo has learnt from them."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gputopo.api.annotations import PlacementAnnotation, parse_placement
from gputopo.api.names import JOB_LABEL
from gputopo.api.profile import GPUProfileStatus, LinkFact, Sample
from learntest import manifests, profiles
from learntest.manifests import Run
from sandbox import Sandbox, sandbox_in
from showcase.install import NAMESPACE, Installed
from showcase.kubectl import KubectlError, Object, wait_for

START_SECONDS = 90
LEARN_SECONDS = 480
_AGENT = "app.kubernetes.io/component=deviceplugin"


@contextmanager
def learning_in(installed: Installed, name: str) -> Iterator["Learning"]:
    """Create a namespace ``name``-… for training jobs, and remove it at the end."""
    assert installed.trainer_image, "this test needs the training job of the local cluster"
    listed = installed.kubectl.list("gputopologies")
    topologies = {each["metadata"]["name"]: each["spec"] for each in listed}
    with sandbox_in(installed, name) as box:
        yield Learning(box, installed.trainer_image, topologies)


@dataclass(slots=True)
class Learning:
    """A namespace with training jobs.

    Attributes:
        image: of the training jobs.
        topologies: ``GPUTopology.spec`` by name of the node.
        uids: UIDs of the pods of each GPUProfile, and of all pods without a profile ("").
    """

    box: Sandbox
    image: str
    topologies: Mapping[str, Object]
    uids: dict[str, set[str]] = field(default_factory=dict)

    def start(self, *runs: Run, make: Callable[[Run, str], Object] = manifests.job) -> None:
        """Create GPUJobs or pods, and wait until their pods run."""
        self.box.create(*(make(run, self.image) for run in runs))
        for run in runs:
            self._wait_running(run)

    def pod_of(self, run: str) -> Object:
        """Return the pod of a GPUJob, or the pod with this name."""
        return next(
            pod
            for pod in self.box.pods()
            if run in {pod["metadata"]["name"], pod["metadata"].get("labels", {}).get(JOB_LABEL)}
        )

    def placement_of(self, run: str) -> PlacementAnnotation:
        placement = parse_placement(self.pod_of(run)["metadata"]["annotations"])
        assert placement is not None
        return placement

    def status_of(self, profile: str) -> GPUProfileStatus:
        """Return the status of a GPUProfile; it is empty while there is no GPUProfile."""
        try:
            found = self.box.kubectl.get("gpuprofile", profile, self.box.namespace)
        except KubectlError as error:
            if "NotFound" not in str(error):
                raise
            return GPUProfileStatus()
        return profiles.status_of(found)

    def link_fact(self, profile: str) -> LinkFact:
        """Wait until the class of a workload is known, and return the fact."""

        def known() -> LinkFact | None:
            fact = profiles.link_fact(self.status_of(profile))
            return fact if fact and fact.sensitivity != "Unknown" else None

        return wait_for(f"the class of {profile} is known", known, timeout_s=LEARN_SECONDS)

    def samples(self, profile: str, enough: Callable[[list[Sample]], bool] = bool) -> list[Sample]:
        """Wait until there are enough samples of a workload, and return all of them."""

        def found() -> list[Sample] | None:
            samples = self.status_of(profile).samples
            return samples if enough(samples) else None

        return wait_for(f"samples of {profile}", found, timeout_s=LEARN_SECONDS)

    def measurement(self, run: str) -> Mapping[str, Any]:
        """Return what the agent publishes of the run now, empty if it does not measure it."""
        pod = self.pod_of(run)
        topology = self.box.kubectl.get("gputopology", pod["spec"]["nodeName"])
        return next(
            (
                each
                for each in topology["status"].get("measurements", [])
                if each["podUID"] == pod["metadata"]["uid"]
            ),
            {},
        )

    def agent_metric(self, node: str, name: str) -> float:
        """Return the value of a metric of the agent of a node; 0 if it has no such metric."""
        agent = next(
            pod["metadata"]["name"]
            for pod in self.box.kubectl.list("pods", NAMESPACE, selector=_AGENT)
            if pod["spec"].get("nodeName") == node
        )
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{agent}:8890/proxy/metrics"
        text = self.box.kubectl.run("get", "--raw", path)
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def _wait_running(self, run: Run) -> None:
        def uid_of_running() -> str | None:
            try:
                pod = self.pod_of(run.name)
            except StopIteration:
                return None
            running = pod["status"].get("phase") == "Running"
            return str(pod["metadata"]["uid"]) if running else None

        uid = wait_for(f"{run.name} runs", uid_of_running, timeout_s=START_SECONDS)
        self.uids.setdefault(run.measuring.profile or "", set()).add(uid)


def column(table: str, name: str) -> list[str]:
    """Return the values of a column that ``kubectl get`` has printed."""
    header, *lines = table.splitlines()
    start = header.index(name)
    following = re.search(r"\S", header[start + len(name) :])
    end = start + len(name) + following.start() if following else None
    return [line[start:end].strip() for line in lines]


def flooding(run: Run, image: str) -> Object:
    """Return a pod that sends garbage to its socket as fast as it can."""
    pod = manifests.pod(run, image)
    pod["spec"]["containers"][0]["command"] = ["python3", "-c", _FLOOD]
    return pod


_FLOOD = """
import os, socket, time
negative = b'{"v":1,"run":"a","steps":-1,"seconds":1}'
garbage = [b"", b"{", bytes(600), bytes([255]) * 512, negative]
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sender.setblocking(False)
number = 0
while True:
    try:
        sender.sendto(garbage[number % len(garbage)], os.environ["GPUTOPO_STEPS_SOCKET"])
        number += 1
    except OSError:
        time.sleep(0.001)
"""
