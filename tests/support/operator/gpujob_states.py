"""GPUJobs at later points of their lives, as the operator has left them."""

from typing import Any

from gputopo_operator.parse.jobs import QUEUE_LABEL
from support.builders.gpujobs import GPUS, exited, rejected_by_kubelet
from support.operator.cluster_states import Situation

LATER = "2026-01-01T00:05:00Z"


def started(**spec: Any) -> Situation:
    """Return a GPUJob whose child Job has been created."""
    situation = Situation(**spec)
    situation.reconcile()
    return situation


def running(**spec: Any) -> Situation:
    """Return a GPUJob whose pod runs on its GPUs."""
    situation = started(**spec).pod(node="n1", gpus=GPUS, phase="Running")
    situation.observed = {"uid-train-1": GPUS}
    situation.reconcile()
    return situation


def suspended_by_user() -> Situation:
    """Return a running GPUJob that its user suspends now."""
    situation = running()
    situation.job["spec"]["suspend"] = True
    return situation


def failed(times: int, **limits: int) -> Situation:
    """Return a GPUJob of which some pods have failed by themselves; one may fail."""
    situation = started(limits={"backoffLimit": 1, **limits})
    for number in range(times):
        situation.pod(f"train-{number}", **exited(1))
    return situation


def rejected(times: int) -> Situation:
    """Return a GPUJob of which kubelet has rejected some pods; one may be rejected."""
    situation = started(limits={"backoffLimit": 0, "maxAdmissionRetries": 1})
    for number in range(times):
        situation.pod(f"train-{number}", node="n1", **rejected_by_kubelet())
    return situation


def disrupted() -> Situation:
    """Return a GPUJob whose pod was preempted."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    situation = started(limits={"backoffLimit": 0})
    return situation.pod(node="n1", **exited(137), conditions=[condition])


def deleted_pod() -> Situation:
    """Return a GPUJob whose failed pod is being deleted."""
    situation = started(limits={"backoffLimit": 0}).pod(node="n1", **exited(137))
    situation.pods[0]["metadata"]["deletionTimestamp"] = LATER
    return situation


def queued(*, suspended: bool) -> Situation:
    """Return a GPUJob of a Kueue queue, whose child Job Kueue has suspended or not."""
    situation = Situation(labels={QUEUE_LABEL: "research"})
    situation.reconcile()
    assert situation.child is not None
    situation.child["spec"]["suspend"] = suspended
    return situation


def not_owned() -> Situation:
    """Return a GPUJob whose child Job belongs to another GPUJob."""
    situation = started()
    assert situation.child is not None
    situation.job["metadata"]["uid"] = "uid-another"
    situation.job.pop("status")
    return situation


def child_lost(situation: Situation) -> Situation:
    """Delete the child Job and its pods."""
    situation.child, situation.pods = None, []
    return situation


def reconciled(situation: Situation) -> Situation:
    """Let the operator write the status once."""
    situation.reconcile()
    return situation
