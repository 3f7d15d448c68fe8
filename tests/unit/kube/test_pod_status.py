"""What kubelet has reported of a pod's containers, and what others wrote into its status."""

from typing import Any

import pytest

from gputopo.api.names import RESOURCE
from gputopo_kube.podmodel import parse_pod_object
from gputopo_kube.pods import PodView, parse_gpu_pod
from objects import container_states, pod

COLLECTED = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]
PREEMPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]


def record(phase: str, *states: str, inits: tuple[str, ...] = (), **status: Any) -> PodView:
    document = pod("a", node="n1", phase=phase)
    if states:
        document["status"]["containerStatuses"] = container_states(*states)
    document["status"] |= {"initContainerStatuses": container_states(*inits), **status}
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminal_phase_with_terminated_containers_is_kubelets_word(phase: str) -> None:
    assert record(phase, "terminated").stopped
    assert record(phase, "failed", inits=("terminated",)).stopped
    assert record(phase, "terminated", conditions=PREEMPTED).stopped


def test_containers_that_run_or_are_not_reported_have_not_stopped() -> None:
    assert not record("Failed", "running").stopped
    assert not record("Failed").stopped
    assert not record("Failed", "waiting").stopped
    assert not record("Failed", "terminated", inits=("running",)).stopped
    debugged = record(
        "Failed", "terminated", ephemeralContainerStatuses=container_states("running")
    )
    assert not debugged.stopped


def test_a_container_that_kubelet_may_restart_has_not_stopped() -> None:
    assert not record("Running", "terminated").stopped


def test_what_pod_garbage_collection_writes_is_not_kubelets_word() -> None:
    assert not record("Failed", "running", conditions=COLLECTED).stopped
    assert not record("Failed", "terminated", conditions=COLLECTED).stopped
    assert not record("Failed", reason="Gone", conditions=COLLECTED).stopped


def test_containers_after_a_failed_init_container_never_started() -> None:
    assert record("Failed", "waiting", inits=("failed", "waiting")).stopped
    assert not record("Failed", "running", inits=("failed",)).stopped


def test_a_pod_that_kubelet_rejected_has_no_container() -> None:
    rejected = record("Failed", reason="UnexpectedAdmissionError", message="Pod was\nrejected: x")
    assert (rejected.stopped, rejected.started) == (True, False)
    assert rejected.rejected == "UnexpectedAdmissionError: Pod was rejected: x"
    assert record("Failed", reason="OutOfcpu").rejected == "OutOfcpu:"
    evicted = record("Failed", "running", reason="Evicted")
    assert (evicted.rejected, evicted.stopped) == (None, False)
    long = record("Failed", reason="UnexpectedAdmissionError", message="x" * 500).rejected
    assert long is not None
    assert len(long) == 120


def test_a_container_has_started_when_it_runs_ended_or_ran_before() -> None:
    assert record("Running", "running").started
    assert record("Running", "terminated").started
    assert not record("Pending", "waiting").started
    restarted = [{"name": "main", "state": {"waiting": {}}, "lastState": {"terminated": {}}}]
    assert record("Running", containerStatuses=restarted).started


def test_a_pod_of_a_group_and_one_that_is_being_deleted_are_known() -> None:
    document = pod("a")
    assert parse_gpu_pod(document, RESOURCE) == parse_gpu_pod(pod("a"), RESOURCE)
    document["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    assert (found.grouped, found.deleting) == (True, True)


def test_the_controller_of_a_pod_is_the_owner_that_says_so() -> None:
    document = pod("a")
    assert parse_pod_object(document).metadata.controller_uid == ""
    document["metadata"]["ownerReferences"] = [{"uid": "u1"}, {"uid": "u2", "controller": True}]
    assert parse_pod_object(document).metadata.controller_uid == "u2"


def test_a_condition_and_a_waiting_container_are_found() -> None:
    document = pod("a")
    document["status"] |= {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        "containerStatuses": container_states("waiting"),
    }
    status = parse_pod_object(document).status
    scheduled = status.condition("PodScheduled")
    assert scheduled is not None
    assert scheduled.reason == "Unschedulable"
    assert status.condition("Ready") is None
    assert status.containers[0].waiting == {"reason": "PodInitializing"}
