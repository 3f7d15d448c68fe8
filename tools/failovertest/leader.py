"""Find the leading scheduler Pod, and kill or freeze its processes."""

import signal
from dataclasses import dataclass

from localcluster import access
from localcluster.access import NodeAccess
from showcase.install import NAMESPACE
from soaktest.client import Client, Object, RejectedError, UnavailableError

LEASE = "gputopo-scheduler"
_SELECTOR = "app.kubernetes.io/component=scheduler"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
# Not the process that only keeps the pod's namespaces: without it kubelet makes a new pod sandbox.
_PROGRAMS = ("kube-scheduler", "gputopo-extender")


@dataclass(frozen=True, slots=True)
class Replica:
    """One scheduler Pod, by name and UID."""

    name: str
    uid: str
    node: str


def replicas(client: Client) -> list[Replica]:
    """Return the ready scheduler Pods; none while the API server does not respond."""
    try:
        pods = client.get(_PODS, labelSelector=_SELECTOR)["items"]
    except (UnavailableError, RejectedError):
        return []
    return [
        Replica(pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"]["nodeName"])
        for pod in pods
        if _is_ready(pod)
    ]


def leading(client: Client) -> str:
    """Return the name of the Pod that has the lease; empty for none."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
    identity: str = client.get(path)["spec"].get("holderIdentity") or ""
    return identity.partition("_")[0]


def send(nodes: NodeAccess, replica: Replica, number: signal.Signals) -> int:
    """Signal every process of both containers; return how many there were."""
    found = {
        process.pid: process
        for program in _PROGRAMS
        for process in access.of_program(nodes, program, replica.node)
        if process.pod_uid == replica.uid
    }
    return access.send(found.values(), number)


def log_since(client: Client, replica: Replica, time: str) -> list[str]:
    """Return the log lines of its extender since an RFC 3339 time; none if the Pod is gone."""
    path = f"{_PODS}/{replica.name}/log"
    try:
        return client.text(path, container="extender", sinceTime=time).splitlines()
    except (UnavailableError, RejectedError):
        return []


def _is_ready(pod: Object) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for one in pod["status"].get("conditions", [])
    )
