"""The owner reference of the objects that the operator creates."""

from typing import Literal

from gputopo.api.names import API_VERSION
from gputopo_kube.document import Document
from gputopo_operator.model.ensembles import Ensemble
from gputopo_operator.model.jobs import GpuJob


def owner_reference(kind: Literal["GPUJob", "GPUEnsemble"], owner: GpuJob | Ensemble) -> Document:
    """Return the owner reference with which Kubernetes deletes an object with its owner."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": owner.key.name,
        "uid": owner.uid,
        "controller": True,
        # If this were true, the admission plugin OwnerReferencesPermissionEnforcement would require
        # rights on the finalizers of the owner. The value affects foreground deletion only.
        "blockOwnerDeletion": False,
    }
