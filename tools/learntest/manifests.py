"""Manifests of measured jobs and pods. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gputopo.api.measuring import MeasuringRequest, format_measuring
from gputopo.api.names import API_VERSION, POLICY_ANNOTATION, RESOURCE, SCHEDULER_NAME
from soaktest.client import Object

_COMMAND = ["python3", "/opt/trainer/train.py"]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a training job.

    Attributes:
        law: see ``tools/images/trainer``.
        milli_cpu: limit and request of the container.
        policy: placement policy; None for that of the installation.
        measuring: what the pod requests to measure.
        plain: whether it is a plain pod, and not a GPUJob.
        folder: folder of the node that the container has at the same path.
        sharing: ``GPUJob.spec.sharing``; empty for a job with a GPU of its own.
    """

    name: str
    law: Mapping[str, Any]
    node: str
    gpus: int = 2
    milli_cpu: int = 100
    policy: str | None = None
    measuring: MeasuringRequest = field(default_factory=MeasuringRequest)
    plain: bool = False
    folder: str | None = None
    sharing: Mapping[str, Any] = field(default_factory=dict)


def pod(run: Run, image: str) -> Object:
    """Return the run as a plain pod."""
    annotations = format_measuring(run.measuring)
    if run.policy:
        annotations[POLICY_ANNOTATION] = run.policy
    spec = _pod_spec(run, image)
    spec["containers"][0]["resources"]["limits"][RESOURCE] = str(run.gpus)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": run.name, "annotations": annotations},
        "spec": {"schedulerName": SCHEDULER_NAME, **spec},
    }


def job(run: Run, image: str) -> Object:
    """Return the run as a GPUJob with bandwidth sensitivity Auto."""
    spec: Object = {"gpusPerReplica": run.gpus, "template": {"spec": _pod_spec(run, image)}}
    if run.measuring.profile:
        spec["workload"] = {"profile": run.measuring.profile}
    if run.policy:
        spec["placement"] = {"policy": run.policy}
    if profiling := _profiling(run.measuring):
        spec["profiling"] = profiling
    if run.sharing:
        spec["sharing"] = dict(run.sharing)
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"name": run.name},
        "spec": spec,
    }


def profile(name: str) -> Object:
    """Return a GPUProfile without values of the user."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUProfile",
        "metadata": {"name": name},
        "spec": {},
    }


def _profiling(request: MeasuringRequest) -> Object:
    profiling: Object = {}
    if request.targets:
        profiling |= {"measure": list(request.targets), "maxSeconds": request.profiling_seconds}
    if request.source != "SDK":
        profiling["throughput"] = {"source": request.source}
    if endpoint := request.metrics:
        text = f"{endpoint.port}{endpoint.path} {endpoint.metric}"
        profiling["throughput"]["metrics"] = text
    return profiling


def _pod_spec(run: Run, image: str) -> Object:
    cpus = {"cpu": f"{run.milli_cpu}m", "memory": "256Mi"}
    container: Object = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(_COMMAND),
        "env": [{"name": "LAW", "value": json.dumps(run.law)}],
        "resources": {"limits": cpus, "requests": {"cpu": cpus["cpu"], "memory": "64Mi"}},
    }
    spec: Object = {
        "terminationGracePeriodSeconds": 2,
        "nodeSelector": {"kubernetes.io/hostname": run.node},
        "containers": [container],
    }
    if run.folder:
        container["volumeMounts"] = [{"name": "folder", "mountPath": run.folder}]
        volume = {"path": run.folder, "type": "DirectoryOrCreate"}
        spec["volumes"] = [{"name": "folder", "hostPath": volume}]
    return spec
