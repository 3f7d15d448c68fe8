"""Find the pod that the user wants to have explained, and the GPUTopology of its node."""

from typing import Final, NamedTuple

from gputopo.api.names import GROUP, JOB_LABEL, VERSION
from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError
from gputopo_kube.document import Document, true_condition
from gputopo_kube.errors import DeniedError
from gputopo_kube.podstatus import ENDED_PHASES
from gputopo_kube.sync import SyncApi

POD: Final = "pod"
GPUJOB: Final = "gpujob"

_KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), POD),
    **dict.fromkeys(("gpujob", "gpujobs", "gj"), GPUJOB),
}
_DESCRIBED: Final = {POD: "a pod", GPUJOB: "a GPUJob", "": "a pod or a GPUJob"}


class ExplainTarget(NamedTuple):
    """A pod or GPUJob; ``kind`` is empty if the user gave only the name."""

    kind: str
    name: str


def parse_target(text: str) -> ExplainTarget:
    """Parse ``NAME``, ``pod/NAME`` or ``gpujob/NAME``.

    Raises:
        InputError: if the text has another form.
    """
    kind, slash, name = text.rpartition("/")
    if not name or (slash and kind.lower() not in _KINDS):
        raise InputError(f"name: {quoted(text)} is not NAME, pod/NAME or gpujob/NAME")
    return ExplainTarget(_KINDS.get(kind.lower(), ""), name)


def find_object(cluster: SyncApi, target: ExplainTarget, namespace: str) -> tuple[str, Document]:
    """Return ``pod`` and a pod, or ``gpujob`` and a GPUJob that has no live or placed pod.

    A plain name is looked up as a pod, then as a GPUJob. For a GPUJob, the result is its newest
    pod. If this pod has ended and the GPUJob has not, the result is the GPUJob.

    Raises:
        InputError: if there is no such object.
    """
    core, group = ("api", "v1"), ("apis", GROUP, VERSION)
    if target.kind != GPUJOB:
        pod = cluster.find(*core, "namespaces", namespace, "pods", target.name)
        if pod is not None:
            return POD, pod
    if target.kind != POD:
        job = cluster.find(*group, "namespaces", namespace, "gpujobs", target.name)
        if job is not None:
            pod = _newest_pod(cluster, target.name, namespace)
            finished = true_condition(job, "Complete", "Failed") is not None
            if pod is None or (_has_ended(pod) and not finished):
                return GPUJOB, job
            return POD, pod
    wrong = f"name: {quoted(target.name)} is not the name of {_DESCRIBED[target.kind]}"
    remedy = "use --namespace for another namespace"
    if _is_ensemble(cluster, target.name, namespace):
        remedy = f"it is a GPUEnsemble: use gputopo ensemble status {target.name}"
    raise InputError(f"{wrong} in namespace {namespace}; {remedy}")


def find_topology(cluster: SyncApi, node: str) -> Document | None:
    """Return the GPUTopology of a node, or None if there is none."""
    return cluster.find("apis", GROUP, VERSION, "gputopologies", node)


def _is_ensemble(cluster: SyncApi, name: str, namespace: str) -> bool:
    path = ("apis", GROUP, VERSION, "namespaces", namespace, "gpuensembles")
    try:
        return cluster.find(*path, name) is not None
    except DeniedError:  # without the permission, the message is only less precise
        return False


def _newest_pod(cluster: SyncApi, job: str, namespace: str) -> Document | None:
    path = ("api", "v1", "namespaces", namespace, "pods")
    pods = cluster.list(*path, selector=f"{JOB_LABEL}={job}")
    created = "creationTimestamp"
    return max(pods, key=lambda pod: str(pod["metadata"].get(created) or ""), default=None)


def _has_ended(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED_PHASES
