"""Removes an installation in the order of docs/start/install.md, and lists what is left."""

from collections.abc import Sequence

from showcase.install import NAMESPACE
from showcase.kubectl import Kubectl
from upgradetest.helm import Helm

DEFINITIONS = ("gpujobs.gputopo.io", "gpuprofiles.gputopo.io", "gputopologies.gputopo.io")
_CLUSTER_KINDS = (
    *("customresourcedefinitions", "clusterroles", "clusterrolebindings"),
    *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
)
_OURS = "app.kubernetes.io/part-of=gputopo"


def remove(kubectl: Kubectl, helm: Helm) -> None:
    """Remove GPUJobs, the release, the CRDs and the namespace."""
    kubectl.run("delete", "gpujobs", "--all", "--all-namespaces", "--ignore-not-found")
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
    definitions = [
        f"CRD {each['metadata']['name']}"
        for each in kubectl.list("customresourcedefinitions")
        if each["metadata"]["name"] in DEFINITIONS
    ]
    return [*labelled, *definitions]
