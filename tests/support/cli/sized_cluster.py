"""A cluster whose pods gputopo sizes, and whose GPUJobs wait in its queue."""

from typing import Any

from gputopo.api.names import RESOURCE
from gputopo.api.tuning import Amounts, TunedRecord
from support.api.static import Document, StaticApi
from support.builders.objects import pod
from support.cli.healthy_cluster import DEPLOYMENTS, NODES, PODS, TOPOLOGIES
from support.tuning.api_cluster import (
    FLAT,
    GIB,
    LINEAR,
    node_object,
    profile_object,
    sized_container,
    sized_pod,
)

PROFILES = "/apis/gputopo.io/v1alpha1/gpuprofiles"
JOBS = "/apis/gputopo.io/v1alpha1/gpujobs"
SINCE = "2026-01-01T11:00:00Z"


def sized_cluster(*more: Document, **arguments: str) -> StaticApi:
    """Return a node with 8 CPUs and 4 GPUs, where a pod has what another does not need.

    ``linear`` has 6.5 CPUs and ``flat`` its floor, 1 CPU. A pod that is not sized has 0.5 CPUs.
    """
    other = pod("web", node="n1", phase="Running", containers=[_other_container()])
    reason = "6,500m CPU: 247 % faster than with its share of 1,875m"
    raised = sized_pod(
        *("linear",),
        profile="linear",
        container=sized_container("6500m"),
        resources=record("linear", target=6500, reason=reason, before=10_000_000),
    )
    flat = sized_pod("flat", profile="flat", mode="Auto")
    for document in (raised, flat):
        applied(document)
    topology: Document = {
        "metadata": {"name": "n1"},
        "status": {"measurements": [measurement("linear", rate=65, milli_cpu=6500)]},
    }
    return StaticApi(
        lists={
            NODES: [node_object(), {**node_object(), "metadata": {"name": "n2"}}],
            PODS: [raised, flat, other, *more],
            PROFILES: [profile_object("linear", LINEAR), profile_object("flat", FLAT)],
            TOPOLOGIES: [topology],
            DEPLOYMENTS: [operator(**arguments)],
        }
    )


def operator(**arguments: str) -> Document:
    """Return the operator's Deployment; arguments are named without dashes."""
    labels = {"part-of": "gputopo", "component": "operator"}
    given = {"resource": RESOURCE, **arguments}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    return {
        "metadata": {
            "name": "gputopo-operator",
            "namespace": "gputopo-system",
            "labels": {f"app.kubernetes.io/{name}": value for name, value in labels.items()},
        },
        "spec": {"template": {"spec": {"containers": [{"name": "operator", "args": flags}]}}},
    }


def record(name: str, *, target: int, reason: str = "why", before: int = 0, **fields: Any) -> str:
    """Return the operator's annotation of a pod with a floor of 1 CPU."""
    return TunedRecord(
        uid=f"uid-{name}",
        floor=Amounts(1000, 4 * GIB),
        last=Amounts(1000, 4 * GIB),
        target=Amounts(target, 4 * GIB),
        since=SINCE,
        reason=reason,
        before_micro_steps_per_second=before,
        **{"done": True, **fields},
    ).dump()


def applied(document: Document, **amounts: str) -> Document:
    """Report that kubelet has applied the amounts in the spec, or these."""
    resources = document["spec"]["containers"][0]["resources"]
    found = {kind: {**resources[kind], **amounts} for kind in ("requests", "limits")}
    status = {"name": "main", "resources": found, "allocatedResources": found["requests"]}
    document["status"]["containerStatuses"] = [status]
    return document


def measurement(name: str, *, rate: int, milli_cpu: int) -> Document:
    """Return the agent's measurement of a pod."""
    return {
        "namespace": "default",
        "pod": name,
        "podUID": f"uid-{name}",
        "container": "main",
        "gpus": 1,
        "source": "SDK",
        "state": "Steady",
        "microStepsPerSecond": 1_000_000 * rate,
        "milliCPU": milli_cpu,
    }


def _other_container() -> Document:
    return {"name": "web", "image": "x", "resources": {"requests": {"cpu": "500m"}}}


def waiting_job(name: str, position: int, gpus: int = 8, **queue: Any) -> Document:
    """Return a GPUJob that waits in the queue."""
    waits = {"position": position, "reason": f"waiting for {gpus} free GPUs on one node"}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"gpusPerReplica": gpus, "expected": {"durationSeconds": 7200}},
        "status": {"phase": "Suspended", "queue": {**waits, "waitingSince": SINCE, **queue}},
    }
