"""Builds the GPUJob of a member."""

import copy

from gputopo.api.ensemble import EnsembleMemberSpec
from gputopo.api.names import (
    API_VERSION,
    ENSEMBLE_LABEL,
    ENSEMBLE_MEMBER_LABEL,
    ENSEMBLE_NODE_ANNOTATION,
)
from gputopo_kube.document import Document
from gputopo_operator.decision.node_affinity import only_node
from gputopo_operator.decision.owner import owner_reference
from gputopo_operator.model.ensembles import Ensemble, member_job_name


def member_job(ensemble: Ensemble, member: EnsembleMemberSpec, gpus: int, node: str) -> Document:
    """Return the GPUJob that trains a member with ``gpus`` GPUs of ``node``."""
    spec = copy.deepcopy(member.job_template.spec)
    pod = spec["template"].setdefault("spec", {})
    pod["affinity"] = only_node(pod.get("affinity"), node)
    workload = {"workload": {"profile": member.profile}} if member.profile else {}
    labels = {
        **(member.job_template.metadata.labels or {}),
        ENSEMBLE_LABEL: ensemble.key.name,
        ENSEMBLE_MEMBER_LABEL: member.name,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {
            "name": member_job_name(ensemble.key.name, member.name),
            "namespace": ensemble.key.namespace,
            "labels": labels,
            "annotations": {ENSEMBLE_NODE_ANNOTATION: node},
            "ownerReferences": [owner_reference("GPUEnsemble", ensemble)],
        },
        "spec": {**spec, **workload, "gpusPerReplica": gpus},
    }
