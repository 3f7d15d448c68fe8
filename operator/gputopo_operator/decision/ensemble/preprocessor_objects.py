"""Builds the Service and the Jobs of the preprocessor of an ensemble."""

import copy
from typing import Final

from gputopo.api.ensemble import Preprocessing
from gputopo.api.names import (
    ENSEMBLE_LABEL,
    ENSEMBLE_PREPROCESSOR_LABEL,
    PREPROCESSOR_VARIABLE,
)
from gputopo_kube.document import Document
from gputopo_operator.decision.owner import owner_reference
from gputopo_operator.model.ensembles import Ensemble, service_name

ENDED_SECONDS: Final = 30
"""Time after which Kubernetes deletes a Job that has ended, so that the next one can be created.

A program can end with status 0 when its pod is deleted, for example by ``kubectl drain`` or by a
suspension. Then the Job is complete, and starts no other pod. A program that always ends is started
once in this time."""

_RETRIES: Final = 1000


def job_name(ensemble: str, cores: int) -> str:
    """Return the name of the Job of the preprocessor with this number of CPUs."""
    return f"{service_name(ensemble)}-{cores}"


def with_address(job: Document, address: str) -> Document:
    """Return the GPUJob of a member whose containers know the address of the preprocessor."""
    if not address:
        return job
    changed = copy.deepcopy(job)
    variable = {"name": PREPROCESSOR_VARIABLE, "value": address}
    pod = changed["spec"]["template"]["spec"]
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        container["env"] = [*(container.get("env") or ()), variable]
    return changed


def preprocessor_service(ensemble: Ensemble, wanted: Preprocessing) -> Document:
    """Return the Service, whose address the members know."""
    name = service_name(ensemble.key.name)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": ensemble.key.namespace,
            "labels": {ENSEMBLE_LABEL: ensemble.key.name},
            "ownerReferences": [owner_reference("GPUEnsemble", ensemble)],
        },
        "spec": {
            "selector": {ENSEMBLE_LABEL: ensemble.key.name, "app": name},
            "ports": [{"name": "items", "port": wanted.port, "targetPort": wanted.port}],
        },
    }


def preprocessor_job(ensemble: Ensemble, wanted: Preprocessing, cores: int) -> Document:
    """Return the Job that runs the preprocessor with this number of CPUs."""
    labels = {ENSEMBLE_LABEL: ensemble.key.name, ENSEMBLE_PREPROCESSOR_LABEL: str(cores)}
    template = copy.deepcopy(wanted.template)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        **labels,
        "app": service_name(ensemble.key.name),
    }
    pod = template["spec"]
    pod["restartPolicy"] = "OnFailure"
    resources = pod["containers"][0].setdefault("resources", {})
    for kind in ("requests", "limits"):
        resources[kind] = {**(resources.get(kind) or {}), "cpu": str(cores)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(ensemble.key.name, cores),
            "namespace": ensemble.key.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference("GPUEnsemble", ensemble)],
        },
        "spec": {
            "backoffLimit": _RETRIES,
            "ttlSecondsAfterFinished": ENDED_SECONDS,
            "template": template,
        },
    }
