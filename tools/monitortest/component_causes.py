"""Causes of the alerts about scheduling and the operator; each ends with its block."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from faulttest import pods
from gputopo.api.names import GPUS_ANNOTATION, SENSITIVITY_ANNOTATION
from localcluster import access
from localcluster.access import PodProcess
from monitortest.site import JOBS, NAMESPACE, PODS, SYSTEM_PODS, Site, repeating, without_rule
from resizetest import faultpods
from resizetest.faultpods import Worker
from resizetest.queue_setting import change_queue
from showcase.install import NAMESPACE as SYSTEM
from showcase.kubectl import wait_for
from soaktest import manifests

_SCHEDULER: Final = "gputopo-scheduler"
_OPERATOR: Final = "gputopo-operator"
_REPLICAS: Final = 2
_LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/{_SCHEDULER}"
_QUOTAS: Final = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
_NO_NODE: Final = {"kubernetes.io/hostname": "no-such-node"}
_MOST_GPUS: Final = 16
_FAILING_JOBS: Final = 6
_REQUEST_SECONDS: Final = 0.5
_EXTENDER: Final = "gputopo-extender"
_FILTER: Final = "http://127.0.0.1:8888/filter"
_SCHEDULER_PODS: Final = "app.kubernetes.io/component=scheduler"


@contextmanager
def extender_down(site: Site) -> Iterator[None]:
    """Remove all pods of scheduler and extender."""
    with _scaled(site, _SCHEDULER, 0, _REPLICAS):
        yield


@contextmanager
def extender_replica_missing(site: Site) -> Iterator[None]:
    """Remove one of two pods of scheduler and extender."""
    with _scaled(site, _SCHEDULER, 1, _REPLICAS):
        yield


@contextmanager
def no_leader(site: Site) -> Iterator[None]:
    """Write an identity into the Lease that belongs to no scheduler."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    spec = {"holderIdentity": "no-scheduler", "leaseDurationSeconds": 600, "renewTime": now}
    site.client.patch(_LEASE, {"spec": spec})
    try:
        yield
    finally:
        site.client.delete(_LEASE)


@contextmanager
def extender_without_rights(site: Site) -> Iterator[None]:
    """Remove the right to list GPUTopologies, restart the standby, and send requests to it."""
    identity = str(site.get(_LEASE)["spec"]["holderIdentity"])
    standby = next(
        pod["metadata"]["name"]
        for pod in site.get(SYSTEM_PODS, labelSelector=_SCHEDULER_PODS)["items"]
        if not identity.startswith(pod["metadata"]["name"])
    )
    before = _extenders(site).keys()
    with without_rule(site, "gputopo-extender", "gputopologies"):
        site.client.delete(f"{SYSTEM_PODS}/{standby}")
        started = wait_for(
            "the extender of a new standby runs",
            lambda: [one for pid, one in _extenders(site).items() if pid not in before],
        )
        with repeating(_REQUEST_SECONDS, lambda _: _request_filter(started[0])):
            yield


@contextmanager
def pods_waiting(site: Site) -> Iterator[None]:
    """Create a pod that fits on no node."""
    waiting = pods.pod("waiting", 1, site.image)
    waiting["spec"]["nodeSelector"] = _NO_NODE
    site.create(waiting)
    yield


@contextmanager
def bandwidth_lost(site: Site) -> Iterator[None]:
    """Leave only two GPUs of a node free that are far from each other, for a sensitive pod."""
    topology = site.get(f"/apis/gputopo.io/v1alpha1/gputopologies/{site.slow}")["spec"]
    worst = min(topology["links"], key=lambda link: int(link["bandwidthMBps"]))
    others = len(topology["gpus"])
    for number in range(others):
        site.create(pods.pod(f"single-{number}", 1, site.image, site.slow))
    for number in range(others):
        placed = site.await_running(f"single-{number}")
        chosen = json.loads(placed["metadata"]["annotations"][GPUS_ANNOTATION])["containers"][
            "main"
        ]
        if chosen[0] in {worst["a"], worst["b"]}:
            site.client.delete(f"{PODS}/single-{number}")
    pair = pods.pod("pair", 2, site.image, site.slow)
    pair["metadata"]["annotations"][SENSITIVITY_ANNOTATION] = "Sensitive"
    site.start(pair)
    yield


@contextmanager
def operator_down(site: Site) -> Iterator[None]:
    """Remove the operator."""
    with _scaled(site, _OPERATOR, 0, 1):
        yield


@contextmanager
def operator_without_rights(site: Site) -> Iterator[None]:
    """Remove the operator's rights on Jobs, and create GPUJobs."""
    with without_rule(site, _OPERATOR, "jobs"):
        for number in range(_FAILING_JOBS):
            job = manifests.job(f"failing-{number}", 1, site.image, 600, "Ring")
            site.client.create(JOBS, job)
        yield


@contextmanager
def queue_waiting(site: Site) -> Iterator[None]:
    """Start the operator with a queue, and create a GPUJob that no node can run."""
    with queued(site):
        site.client.create(JOBS, manifests.job("too-large", _MOST_GPUS, site.image, 600, "Ring"))
        yield


@contextmanager
def queued(site: Site) -> Iterator[None]:
    """Run the operator with a queue for the time of the block."""
    kubectl = site.installed.kubectl
    change_queue(kubectl, "FIFO")
    try:
        yield
    finally:
        change_queue(kubectl, "")


@contextmanager
def resizes_rejected(site: Site) -> Iterator[None]:
    """Run a job whose share of CPUs is above the quota of its namespace."""
    quota = faultpods.quota(200)
    site.client.create(_QUOTAS, quota)
    own = f"{_QUOTAS}/{quota['metadata']['name']}"
    try:
        wait_for("the quota is in force", lambda: "hard" in site.get(own).get("status", {}))
        worker = Worker("sized", site.node, 4)
        site.client.create(JOBS, faultpods.job(worker, site.installed.trainer_image))
        yield
    finally:
        site.client.delete(own)


def _extenders(site: Site) -> dict[int, PodProcess]:
    """Return the processes of the extenders by number."""
    return {each.pid: each for each in access.of_program(site.machines, _EXTENDER)}


def _request_filter(extender: PodProcess) -> None:
    """Call filter in the network namespace of an extender, which is on loopback only."""
    wget = ("busybox", "wget", "-q", "-O", "/dev/null", "--post-data={}", _FILTER)
    extender.run_in_network(*wget)


@contextmanager
def _scaled(site: Site, deployment: str, during: int, after: int) -> Iterator[None]:
    site.scale(deployment, during)
    try:
        yield
    finally:
        site.scale(deployment, after)
