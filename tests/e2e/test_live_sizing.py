"""Pods on real kubelets get other CPUs while they run, and none of them restarts.

All tests use the same two sized pods: ``shared``, the pod of a GPUJob in the mode Proportional, and
``hungry``, a pod with annotations that is faster the more CPUs it has. The order of the tests is
that of the changes on the node.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import workloads
from features import is_served, require_none
from gputopo.api.names import (
    JOB_LABEL,
    PROFILE_ANNOTATION,
    RESOURCES_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
    TUNED_LABEL,
)
from learning import column
from resizetest import amounts, manifests
from resizetest.amounts import PodAmounts
from resizetest.soaking import facts
from sandbox import Sandbox, sandbox_in
from showcase.install import Installed
from showcase.kubectl import KubectlError, Object, wait_for
from soaktest.client import OPERATOR
from support.features import MUTATING_POLICIES

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("beside_counters")]

FLOOR, FILLER, BY_USER = 100, 300, 130
GPUS_OF_JOB = 2
RESIZE_SECONDS = 90


@dataclass(frozen=True, slots=True)
class Sized:
    """The pods of this module.

    Attributes:
        capacity: CPUs that the node has for them.
    """

    box: Sandbox
    node: str
    capacity: int

    @property
    def share(self) -> int:
        """CPUs for the GPUs of the job."""
        return GPUS_OF_JOB * (self.capacity // 8)

    def pod_of_job(self) -> Object | None:
        """Return the pod of the GPUJob."""
        pods = self.box.kubectl.list("pods", self.box.namespace, selector=f"{JOB_LABEL}=shared")
        return pods[0] if pods else None

    def amounts(self) -> dict[str, PodAmounts]:
        """Return the amounts of both pods, as kubelet reports them."""
        job, pod = self.pod_of_job(), self.box.kubectl.get("pod", "hungry", self.box.namespace)
        return {"hungry": amounts.read(pod)} | ({"shared": amounts.read(job)} if job else {})

    def await_limits(self, what: str, shared: int, hungry: range) -> dict[str, PodAmounts]:
        """Wait until both limits are in effect; return all amounts."""

        def reached() -> dict[str, PodAmounts] | None:
            found = self.amounts()
            limits = {name: each.limits.milli_cpu for name, each in found.items()}
            return found if limits.get("shared") == shared and limits["hungry"] in hungry else None

        return wait_for(what, reached, timeout_s=RESIZE_SECONDS)


@pytest.fixture(scope="module")
def sized(installed: Installed, pcie: str) -> Iterator[Sized]:
    """Two pods with low floors on an idle node."""
    with sandbox_in(installed, "live-sizing") as box:
        node = amounts.allocatable(box.kubectl.get("node", pcie)).milli_cpu
        others = sum(
            amounts.read(pod).counted.milli_cpu
            for pod in box.kubectl.list("pods")
            if amounts.holds(pod) and pod["spec"]["nodeName"] == pcie
        )
        made = Sized(box, pcie, node - others)
        _know_speed(box)
        box.create(_pod(box, pcie), _job(box, pcie))
        wait_for("both pods exist", lambda: len(made.amounts()) == 2)
        box.wait_running(2)
        yield made


def _know_speed(box: Sandbox) -> None:
    """Create a GPUProfile of a workload that uses all CPUs of the node."""
    box.create(facts.profile("hungry"))
    status = {"status": facts.status("hungry", enough=2000, generation=1)}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
    # kubectl reads the object first, which the operator's account may not do with this subresource.
    account = (f"--as={OPERATOR}", "--as-group=system:masters")
    box.kubectl.run("patch", "gpuprofile", "hungry", "-n", box.namespace, *patch, *account)


def _pod(box: Sandbox, node: str) -> Object:
    annotations = {RESOURCES_MODE_ANNOTATION: "Auto", PROFILE_ANNOTATION: "hungry"}
    pod = workloads.gpu_pod("hungry", 1, image=box.image, node=node, annotations=annotations)
    if not is_served(box.kubectl, MUTATING_POLICIES):
        # No policy of the chart adds the label there.
        pod["metadata"]["labels"] = {TUNED_LABEL: "true"}
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] |= {"cpu": f"{FLOOR}m", "memory": "64Mi"}
    return pod


def _job(box: Sandbox, node: str) -> Object:
    resources = {"mode": "Proportional", "min": {"cpu": f"{FLOOR}m", "memory": "64Mi"}}
    return workloads.gpu_job("shared", GPUS_OF_JOB, image=box.image, node=node, resources=resources)


def _job_status(sized: Sized, reason: str) -> Object:
    """Return the status of the GPUJob once its condition Sized has the reason."""

    def reached() -> Object | None:
        job = sized.box.kubectl.get("gpujob", "shared", sized.box.namespace)
        conditions = {each["type"]: each for each in job["status"]["conditions"]}
        status: Object = job["status"] | {"sized": conditions.get("Sized", {})}
        return status if status["sized"].get("reason") == reason else None

    return wait_for(f"the condition Sized has the reason {reason}", reached)


def test_pods_get_their_share_and_what_makes_them_faster(sized: Sized) -> None:
    most = sized.capacity - sized.share
    found = sized.await_limits("the pods have all CPUs", sized.share, range(most - 50, most + 1))
    assert found["shared"].requests == found["shared"].allocated
    record = json.loads(
        sized.box.kubectl.get("pod", "hungry", sized.box.namespace)["metadata"]["annotations"][
            RESOURCES_ANNOTATION
        ]
    )
    assert record["floor"]["milliCPU"] == FLOOR
    assert "faster than with its share" in record["reason"]


def test_size_of_a_gpujob_is_in_its_status_and_in_kubectl_get(sized: Sized) -> None:
    status = _job_status(sized, "Resized")
    assert status["sized"]["status"] == "True"
    assert status["resources"]["milliCPU"] == sized.share
    assert "its share" in status["resources"]["reason"]
    table = sized.box.kubectl.run("get", "gj", "-o", "wide", "-n", sized.box.namespace)
    print(table)
    assert column(table, "CPU") == [str(sized.share)]


def test_pending_pod_of_the_default_scheduler_gets_cpus_of_a_sized_pod(sized: Sized) -> None:
    before = sized.amounts()["hungry"].limits.milli_cpu
    box = sized.box
    box.create(manifests.filler("filler", sized.node, FILLER, box.image))
    box.wait_running(1, only="filler", timeout_s=RESIZE_SECONDS)
    wait_for(
        "the sized pod has fewer CPUs",
        lambda: FLOOR < sized.amounts()["hungry"].limits.milli_cpu <= before - FILLER + 50,
        timeout_s=RESIZE_SECONDS,
    )


def test_pod_that_a_user_resizes_is_left_alone(sized: Sized) -> None:
    box, pod = sized.box, sized.pod_of_job()
    assert pod is not None
    name, cpus = pod["metadata"]["name"], {"cpu": f"{BY_USER}m"}
    container = {"name": "main", "resources": {"requests": cpus, "limits": cpus}}
    patch = json.dumps({"spec": {"containers": [container]}})
    box.kubectl.run("patch", "pod", name, "-n", box.namespace, "--subresource=resize", "-p", patch)
    status = _job_status(sized, "Pinned")
    assert "another client has resized the pod" in status["sized"]["message"]

    def resized_by_other() -> int:
        return [
            event["reason"]
            for event in box.kubectl.list("events", box.namespace)
            if event["involvedObject"].get("name") == name
        ].count("ResizedByOther")

    wait_for(
        "the limit of the user is in effect",
        lambda: sized.amounts()["shared"].limits.milli_cpu == BY_USER,
        timeout_s=RESIZE_SECONDS,
    )
    wait_for("an event reports it", lambda: resized_by_other() > 0)
    assert resized_by_other() == 1
    assert sized.amounts()["shared"].limits.milli_cpu == BY_USER


def test_pod_without_the_label_is_rejected_where_no_policy_adds_it(sized: Sized) -> None:
    box = sized.box
    require_none(box.kubectl, MUTATING_POLICIES)
    pod = _pod(box, sized.node)
    pod["metadata"] |= {"name": "unlabelled", "labels": {}}
    with pytest.raises(KubectlError, match=rf"metadata.labels\[{TUNED_LABEL}\]: '' is not 'true'"):
        box.create(pod)


def test_no_container_has_restarted(sized: Sized) -> None:
    found = sized.amounts()
    assert {name: each.restarts for name, each in found.items()} == {"hungry": 0, "shared": 0}
    assert all(len(each.started) == 1 for each in found.values())
