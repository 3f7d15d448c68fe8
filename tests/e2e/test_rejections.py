"""Invalid objects are rejected, and the message names the remedy."""

import json
from collections.abc import Iterator

import pytest

import workloads
from gputopo.api.names import GPUS_ANNOTATION, PATTERN_ANNOTATION, PLACEMENT_ANNOTATION
from sandbox import Sandbox, sandbox_in
from showcase.install import Installed
from showcase.kubectl import Object, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("beside_counters")]


@pytest.fixture(scope="module")
def sandbox(installed: Installed) -> Iterator[Sandbox]:
    """One namespace for all tests of this module, which do not disturb each other."""
    with sandbox_in(installed, "rejections") as box:
        yield box


@pytest.fixture(scope="module")
def victim(sandbox: Sandbox) -> Object:
    """A running pod with a GPU."""
    sandbox.create(workloads.gpu_pod("victim", 1, image=sandbox.image))
    (pod,) = sandbox.wait_running(1, only="victim")
    return pod


def _rejection(sandbox: Sandbox, manifest: Object) -> str:
    stdin = json.dumps(sandbox.placed(manifest))
    message = sandbox.kubectl.rejection_message("create", "-f", "-", stdin=stdin)
    print(message)
    return message


@pytest.mark.parametrize("gpus", [0, 99])
def test_job_with_an_impossible_number_of_gpus(sandbox: Sandbox, gpus: int) -> None:
    message = _rejection(sandbox, workloads.gpu_job("bad", gpus, image=sandbox.image))
    assert "spec.gpusPerReplica" in message
    assert str(gpus) in message


def test_job_with_an_unknown_pattern(sandbox: Sandbox) -> None:
    job = workloads.gpu_job("bad", 2, image=sandbox.image, communication={"pattern": "Donut"})
    message = _rejection(sandbox, job)
    assert "spec.communication.pattern" in message
    assert "Donut" in message
    assert "Ring" in message


def test_job_whose_edges_name_a_vertex_that_is_not_there(sandbox: Sandbox) -> None:
    edges = [{"from": 0, "to": 3, "weight": 1}]
    communication = {"pattern": "Custom", "edges": edges}
    job = workloads.gpu_job("bad", 3, image=sandbox.image, communication=communication)
    message = _rejection(sandbox, job)
    assert "spec.communication.edges" in message
    assert "3" in message


def test_job_field_that_is_not_yet_supported(sandbox: Sandbox) -> None:
    job = workloads.gpu_job("bad", 1, image=sandbox.image, replicas=2)
    message = _rejection(sandbox, job)
    assert "replicas" in message
    assert "not yet supported" in message


def test_job_whose_template_is_wrong_says_so_in_its_status(sandbox: Sandbox) -> None:
    job = workloads.gpu_job("typo", 1, image=sandbox.image)
    job["spec"]["template"]["spec"]["containers"][0]["imagePullPolcy"] = "Always"
    sandbox.create(job)

    def rejection() -> str | None:
        status = sandbox.kubectl.get("gpujob", "typo", sandbox.namespace).get("status", {})
        for condition in status.get("conditions", []):
            if condition["type"] == "Accepted" and condition["status"] == "False":
                return str(condition["message"])
        return None

    message = wait_for("Accepted=False", rejection)
    print(message)
    assert "imagePullPolcy" in message


def test_pod_of_the_default_scheduler_that_requests_gpus(sandbox: Sandbox) -> None:
    pod = workloads.gpu_pod("stray", 1, image=sandbox.image, scheduler="default-scheduler")
    message = _rejection(sandbox, pod)
    assert "schedulerName" in message
    assert "gputopo" in message


@pytest.mark.usefixtures("victim")
@pytest.mark.parametrize("annotation", [GPUS_ANNOTATION, PLACEMENT_ANNOTATION])
@pytest.mark.parametrize("subresource", [(), ("--subresource=status",)])
def test_user_who_patches_a_placement_on_a_running_pod(
    sandbox: Sandbox, annotation: str, subresource: tuple[str, ...]
) -> None:
    before = sandbox.kubectl.get("pod", "victim", sandbox.namespace)["metadata"]["annotations"]
    patch = json.dumps({"metadata": {"annotations": {annotation: "{}"}}})
    command = ("patch", "pod", "victim", "-n", sandbox.namespace, *subresource, "--type=merge")
    message = sandbox.kubectl.rejection_message(*command, "-p", patch)
    print(message)
    assert annotation in message
    after = sandbox.kubectl.get("pod", "victim", sandbox.namespace)["metadata"]["annotations"]
    assert after == before


def test_copied_manifest_with_gpus_of_another_pod(sandbox: Sandbox, victim: Object) -> None:
    annotations = {GPUS_ANNOTATION: victim["metadata"]["annotations"][GPUS_ANNOTATION]}
    copy = workloads.gpu_pod("copy", 1, image=sandbox.image, annotations=annotations)
    assert GPUS_ANNOTATION in _rejection(sandbox, copy)


def test_pod_with_a_malformed_annotation_stays_pending_with_the_reason(sandbox: Sandbox) -> None:
    annotations = {PATTERN_ANNOTATION: "Donut"}
    sandbox.create(workloads.gpu_pod("donut", 2, image=sandbox.image, annotations=annotations))
    message = wait_for("an event on the pod", lambda: sandbox.scheduling_message("donut") or None)
    print(message)
    assert PATTERN_ANNOTATION in message
    assert "Donut" in message
    assert "Ring, Tree, RingTree, Chain, Star, AllToAll, Custom" in message
    assert "nodeName" not in sandbox.kubectl.get("pod", "donut", sandbox.namespace)["spec"]
