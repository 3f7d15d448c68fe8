"""Objects that the API server must accept or reject, created as dry runs."""

from dataclasses import dataclass
from typing import Final

from gputopo.api.names import API_VERSION, GPUS_ANNOTATION, GROUP, VERSION
from gputopo_kube.document import Document
from gputopo_operator.installtest.verdict import InstallCheck, InstallVerdict

QUERY: Final = {"dryRun": "All", "fieldValidation": "Strict"}
_NAME: Final = "gputopo-test-"  # the API server completes it


@dataclass(frozen=True, slots=True)
class DryRun:
    """One object to create.

    Attributes:
        name: of the check.
        group: API group of the object, empty for the core group.
        resource: its plural name.
        path: URL path of its collection.
        body: the object.
        forged: whether the admission policies must reject it.
    """

    name: str
    group: str
    resource: str
    path: tuple[str, ...]
    body: Document
    forged: bool = False


def dry_runs(namespace: str, resource: str, scheduler_name: str) -> list[DryRun]:
    """Return a GPUJob, a pod with a GPU, and a pod with a forged placement."""
    pods = ("api", "v1", "namespaces", namespace, "pods")
    jobs = ("apis", GROUP, VERSION, "namespaces", namespace, "gpujobs")
    forged = _pod(resource, scheduler_name, {GPUS_ANNOTATION: "forged"})
    return [
        DryRun("GPUJob", GROUP, "gpujobs", jobs, _gpu_job()),
        DryRun("pod with a GPU", "", "pods", pods, _pod(resource, scheduler_name, {})),
        DryRun("forged placement", "", "pods", pods, forged, forged=True),
    ]


def judge_dry_run(run: DryRun, rejection: str) -> InstallCheck:
    """Return whether the response was right; ``rejection`` is empty for an accepted object."""
    if run.forged and not rejection:
        text = (
            "the API server accepts a pod with a placement that the extender did not write, so"
            " users can give their pods any GPU; see gputopo doctor, check policies"
        )
        return InstallCheck(run.name, InstallVerdict.FAILED, text)
    if run.forged:
        return InstallCheck(run.name, InstallVerdict.PASSED, f"is rejected: {rejection}")
    if rejection:
        return InstallCheck(run.name, InstallVerdict.FAILED, f"is rejected: {rejection}")
    return InstallCheck(run.name, InstallVerdict.PASSED, "the API server accepts it in a dry run")


def without_right(run: DryRun) -> InstallCheck:
    """Return the check of a dry run for which the account of the test has no right."""
    text = (
        f"the account of the test may not create {run.resource}; the chart gives this right only"
        " with admissionPolicies.enabled, which limits it to dry runs"
    )
    return InstallCheck(run.name, InstallVerdict.SKIPPED, text)


def review(namespace: str, run: DryRun) -> Document:
    """Return the question to the API server whether the test may create the object."""
    attributes = {
        "namespace": namespace,
        "verb": "create",
        "group": run.group,
        "resource": run.resource,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


def _gpu_job() -> Document:
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"generateName": _NAME},
        "spec": {
            "gpusPerReplica": 1,
            "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}},
        },
    }


def _pod(resource: str, scheduler_name: str, annotations: dict[str, str]) -> Document:
    # Also complies with the Pod Security level restricted, which the namespace may enforce.
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "main",
        "image": "busybox",
        "resources": {
            "requests": {"cpu": "1m", "memory": "1Mi"},
            "limits": {resource: "1", "cpu": "1m", "memory": "1Mi"},
        },
        "securityContext": security,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": _NAME, "annotations": annotations},
        "spec": {"schedulerName": scheduler_name, "containers": [container]},
    }
