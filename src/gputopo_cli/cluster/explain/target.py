"""Find the pod that the user wants to have explained, and the GPUTopology of its node."""

from typing import Final, NamedTuple

from gputopo.api.names import GROUP, JOB_LABEL, VERSION
from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError
from gputopo_kube.document import Document
from gputopo_kube.sync import SyncApi

POD: Final = "pod"
GPUJOB: Final = "gpujob"
PREFIXES: Final = (f"{POD}/", f"{GPUJOB}/")

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


def find_pod(cluster: SyncApi, target: ExplainTarget, namespace: str) -> Document:
    """Return the pod. A plain name is looked up as a pod, then as a GPUJob.

    Raises:
        InputError: if there is no such object, or the GPUJob has no pod.
    """
    core, group = ("api", "v1"), ("apis", GROUP, VERSION)
    if target.kind != GPUJOB:
        pod = cluster.find(*core, "namespaces", namespace, "pods", target.name)
        if pod is not None:
            return pod
    if target.kind != POD and cluster.find(*group, "namespaces", namespace, "gpujobs", target.name):
        return _newest_pod(cluster, target.name, namespace)
    raise InputError(
        f"name: {quoted(target.name)} is not the name of {_DESCRIBED[target.kind]} in namespace "
        f"{namespace}; use --namespace for another namespace"
    )


def find_topology(cluster: SyncApi, node: str) -> Document | None:
    """Return the GPUTopology of a node, or None if there is none."""
    return cluster.find("apis", GROUP, VERSION, "gputopologies", node)


def _newest_pod(cluster: SyncApi, job: str, namespace: str) -> Document:
    path = ("api", "v1", "namespaces", namespace, "pods")
    pods = cluster.list(*path, selector=f"{JOB_LABEL}={job}")
    if not pods:
        raise InputError(
            f"gpujob: {quoted(job)} has no pod; the conditions of the GPUJob state what it waits "
            "for, and `gputopo queue` shows its position"
        )
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
