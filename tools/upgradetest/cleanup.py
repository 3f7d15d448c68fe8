"""Removes an installation in the order of docs/start/install.md, and lists what is left."""

from collections.abc import Sequence

from gputopo.api.names import GROUP
from showcase.install import NAMESPACE
from showcase.kubectl import Kubectl
from upgradetest.helm import Helm

_WORKLOADS = ("gpuensembles", "gpujobs")
"""In this order, because the operator creates GPUJobs of existing GPUEnsembles."""

DEFINITIONS = tuple(f"{kind}.{GROUP}" for kind in (*_WORKLOADS, "gpuprofiles", "gputopologies"))
_CLUSTER_KINDS = (
    *("customresourcedefinitions", "clusterroles", "clusterrolebindings"),
    *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
)
_OURS = "app.kubernetes.io/part-of=gputopo"


def remove(kubectl: Kubectl, helm: Helm) -> None:
    """Remove GPUEnsembles and GPUJobs, the release, the CRDs and the namespace."""
    for kind in _WORKLOADS:
        if f"{kind}.{GROUP}" in _definitions(kubectl):  # an earlier version has fewer kinds
            kubectl.run("delete", kind, "--all", "--all-namespaces", "--ignore-not-found")
    helm.uninstall()
    kubectl.run("delete", "customresourcedefinition", *DEFINITIONS, "--ignore-not-found")
    waiting = f"--wait={str(helm.waits).lower()}"
    kubectl.run("delete", "namespace", NAMESPACE, waiting, "--ignore-not-found", timeout_s=180)


def leftovers(kubectl: Kubectl) -> Sequence[str]:
    """Return the objects of gputopo that are still in the cluster."""
    labelled = [
        f"{kind} {each['metadata']['name']}"
        for kind in (*_CLUSTER_KINDS, "rolebindings")
        for each in kubectl.list(kind, selector=_OURS)
    ]
    return [*labelled, *(f"CRD {name}" for name in _definitions(kubectl))]


def _definitions(kubectl: Kubectl) -> Sequence[str]:
    """Return the names of gputopo's CRDs that are in the cluster."""
    names = [each["metadata"]["name"] for each in kubectl.list("customresourcedefinitions")]
    return [name for name in names if name in DEFINITIONS]
