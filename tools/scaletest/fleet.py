"""The simulated nodes on the real control plane, and their removal."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from localcluster import controlplane, processes
from localcluster.cluster import Cluster
from localcluster.settings import Paths
from scaletest import objects
from showcase.kubectl import wait_for
from soaktest.client import Client, RejectedError, UnavailableError

NAMESPACE = "gputopo-scale"
_NAMESPACE = f"/api/v1/namespaces/{NAMESPACE}"
PODS = f"{_NAMESPACE}/pods"
_TOPOLOGIES = "/apis/gputopo.io/v1alpha1/gputopologies"
_NODES = "/api/v1/nodes"
_STAGES = Path(__file__).with_name("stages.yaml")
_SERVERS = ("dgx1-v100", "dgx-a100", "pcie-8gpu")
_CLIENTS = 8
_MANAGER = "kube-controller-manager"
Value = TypeVar("Value")


@contextmanager
def fleet(
    client: Client, cluster: Cluster, paths: Paths, kwok: Path, names: Sequence[str]
) -> Iterator[None]:
    """Create these nodes, with GPUs, for the duration of a block."""
    with _patient_manager(cluster, paths), _kwok(paths, kwok):
        remove(client)
        try:
            client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            each(lambda name: client.create(_NODES, objects.node(name)), names)
            each(lambda numbered: _publish(client, *numbered), list(enumerate(names)))
            patience = 120 + len(names) // 5
            wait_for("all nodes are ready", lambda: _all_ready(client), timeout_s=patience)
            yield
        finally:
            remove(client)


def each(work: Callable[[Value], object], items: Sequence[Value]) -> None:
    """Do the same for all items, several at a time."""
    with ThreadPoolExecutor(_CLIENTS) as pool:
        list(pool.map(work, items))


def remove(client: Client) -> None:
    """Delete all objects of a run, also of an interrupted one."""
    remove_pods(client)
    for collection in (_TOPOLOGIES, _NODES):
        _empty(client, collection, labelSelector=objects.LABEL)
    client.delete(_NAMESPACE)
    # With it go tens of thousands of Events.
    wait_for("the namespace is gone", lambda: not _exists(client), timeout_s=600)


def remove_pods(client: Client) -> None:
    """Delete all pods of the run, and wait until they are gone."""
    _empty(client, PODS)


def _empty(client: Client, collection: str, **selected: str) -> None:
    def empty() -> bool:
        try:
            client.delete(collection, gracePeriodSeconds="0", **selected)
            return not client.get(collection, limit="1", **selected)["items"]
        except UnavailableError:  # it took longer than one request may
            return False

    wait_for(f"nothing is left in {collection}", empty, timeout_s=240)


def _publish(client: Client, number: int, name: str) -> None:
    body, status = objects.topology(name, _SERVERS[number % len(_SERVERS)])
    client.create(_TOPOLOGIES, body)
    client.patch(f"{_TOPOLOGIES}/{name}/status", status)


def _all_ready(client: Client) -> bool:
    nodes = client.get(_NODES, labelSelector=objects.LABEL)["items"]
    taints = [taint["key"] for node in nodes for taint in node["spec"].get("taints", [])]
    return bool(nodes) and "node.kubernetes.io/not-ready" not in taints


def _exists(client: Client) -> bool:
    try:
        client.get(_NAMESPACE)
    except (UnavailableError, RejectedError):
        return False
    return True


@contextmanager
def _kwok(paths: Paths, kwok: Path) -> Iterator[None]:
    """Run kwok; its nodes renew their leases after half a day.

    A thousand renewals at once take seconds of processor time.
    """
    command: list[str | Path] = [
        kwok,
        f"--kubeconfig={paths.kubeconfig}",
        f"--config={_STAGES}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=172800",
    ]
    identity = processes.start(command, paths.logs / "kwok.log", {"HOME": str(paths.state)})
    try:
        yield
    finally:
        processes.end(identity, patience_seconds=2)


@contextmanager
def _patient_manager(cluster: Cluster, paths: Paths) -> Iterator[None]:
    """Run a controller manager that accepts such leases."""
    cluster.set_part(_MANAGER, on=False)
    command = controlplane.arguments(_MANAGER, paths, paths.binaries)
    identity = processes.start(
        [*command, "--node-monitor-grace-period=48h"], paths.logs / "scale-manager.log", {}
    )
    try:
        yield
    finally:
        processes.end(identity, patience_seconds=2)
        cluster.set_part(_MANAGER, on=True)
