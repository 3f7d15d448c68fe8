"""The status of a pod: whether kubelet has reported it as started, stopped or rejected."""

from typing import Any

import pytest

from gputopo.api.names import RESOURCE
from gputopo_kube.podmodel import parse_pod_object
from gputopo_kube.pods import PodView, parse_gpu_pod
from support.builders.objects import container_states, pod

COLLECTED = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]
PREEMPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]


def view(phase: str, *states: str, inits: tuple[str, ...] = (), **status: Any) -> PodView:
    document = pod("a", node="n1", phase=phase)
    if states:
        document["status"]["containerStatuses"] = container_states(*states)
    document["status"] |= {"initContainerStatuses": container_states(*inits), **status}
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_has_stopped_when_all_containers_are_terminated(phase: str) -> None:
    assert view(phase, "terminated").stopped
    assert view(phase, "failed", inits=("terminated",)).stopped
    assert view(phase, "terminated", conditions=PREEMPTED).stopped


def test_pod_has_not_stopped_while_a_container_runs_or_is_not_reported() -> None:
    assert not view("Failed", "running").stopped
    assert not view("Failed").stopped
    assert not view("Failed", "waiting").stopped
    assert not view("Failed", "terminated", inits=("running",)).stopped
    debugged = view("Failed", "terminated", ephemeralContainerStatuses=container_states("running"))
    assert not debugged.stopped


def test_pod_has_not_stopped_while_kubelet_may_restart_a_container() -> None:
    assert not view("Running", "terminated").stopped


def test_phase_of_pod_garbage_collection_does_not_show_that_a_pod_has_stopped() -> None:
    assert not view("Failed", "running", conditions=COLLECTED).stopped
    assert not view("Failed", "terminated", conditions=COLLECTED).stopped
    assert not view("Failed", reason="Gone", conditions=COLLECTED).stopped


def test_pod_has_stopped_when_containers_after_a_failed_init_container_wait() -> None:
    assert view("Failed", "waiting", inits=("failed", "waiting")).stopped
    assert not view("Failed", "running", inits=("failed",)).stopped


def test_rejected_pod_has_no_container_statuses() -> None:
    rejected = view("Failed", reason="UnexpectedAdmissionError", message="Pod was\nrejected: x")
    assert (rejected.stopped, rejected.started) == (True, False)
    assert rejected.rejected == "UnexpectedAdmissionError: Pod was rejected: x"
    assert view("Failed", reason="OutOfcpu").rejected == "OutOfcpu:"
    evicted = view("Failed", "running", reason="Evicted")
    assert (evicted.rejected, evicted.stopped) == (None, False)
    long = view("Failed", reason="UnexpectedAdmissionError", message="x" * 500).rejected
    assert long is not None
    assert len(long) == 240


@pytest.mark.parametrize("call", ["rpc error", "device plugin Allocate rpc failed: rpc error"])
def test_rejection_by_the_agent_has_only_the_message_of_the_agent(call: str) -> None:
    said = "pod a/b was not placed by gputopo: status desc = x"
    message = f"Pod was rejected: Allocate failed due to {call}: code = Unknown desc = {said}"
    pod = view(
        "Failed", reason="UnexpectedAdmissionError", message=f"{message}, which is unexpected"
    )
    assert pod.rejected == f"UnexpectedAdmissionError: {said}"


def test_container_has_started_when_it_runs_or_has_ended_or_ran_before() -> None:
    assert view("Running", "running").started
    assert view("Running", "terminated").started
    assert not view("Pending", "waiting").started
    restarted = [{"name": "main", "state": {"waiting": {}}, "lastState": {"terminated": {}}}]
    assert view("Running", containerStatuses=restarted).started


def test_view_shows_scheduling_group_and_deletion() -> None:
    document = pod("a")
    assert parse_gpu_pod(document, RESOURCE) == parse_gpu_pod(pod("a"), RESOURCE)
    document["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    assert (found.grouped, found.deleting) == (True, True)


def test_controller_of_a_pod_is_the_owner_with_controller_true() -> None:
    document = pod("a")
    assert parse_pod_object(document).metadata.controller_uid == ""
    document["metadata"]["ownerReferences"] = [{"uid": "u1"}, {"uid": "u2", "controller": True}]
    assert parse_pod_object(document).metadata.controller_uid == "u2"


def test_condition_and_waiting_container_are_found() -> None:
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
