"""Queue and ensembles offer the GPUs that the extender offers, in states that are not plain."""

from collections.abc import Callable

import pytest

from gputopo.topology.model import GpuUuid
from gputopo_operator.decision.ensemble.nodes import usable_nodes
from gputopo_operator.model.ensembles import ClusterGpus
from gputopo_operator.parse.ensemble_spec import parse_ensemble
from support.builders.clusters import annotated
from support.builders.objects import Document, pod
from support.operator.ensembles import ensemble, member
from support.operator.queue import QueuedCluster, node, plain_node, plan, started

GPUS = [GpuUuid(f"GPU-n1-{index}") for index in range(4)]


def gpu(cluster: QueuedCluster, index: int) -> Document:
    found: Document = cluster.nodes[0]["status"]["gpus"][index]
    return found


def pod_holds_failed_gpus(cluster: QueuedCluster) -> None:
    cluster.pods = [user_of(0, 1)]
    for index in (0, 1):
        gpu(cluster, index)["healthy"] = False


def mps_still_serves_gpus(cluster: QueuedCluster) -> None:
    for index in (0, 1):
        gpu(cluster, index)["wholeFault"] = "MPS still serves it"


def annotation_and_kubelet_differ(cluster: QueuedCluster) -> None:
    cluster.pods = [user_of(0, 1)]
    for index in (2, 3):
        gpu(cluster, index)["podUID"] = "uid-uses"


def user_of(*gpus: int) -> Document:
    chosen = annotated("uid-uses", "n1", [GPUS[each] for each in gpus])
    return pod("uses", len(gpus), node="n1", phase="Running", annotations=chosen)


STATES = pytest.mark.parametrize(
    ("state", "free"),
    [(pod_holds_failed_gpus, 2), (mps_still_serves_gpus, 2), (annotation_and_kubelet_differ, 0)],
)


@STATES
def test_queue_starts_jobs_on_the_gpus_that_the_extender_offers(
    state: Callable[[QueuedCluster], None], free: int
) -> None:
    cluster = QueuedCluster(node("n1", 4))
    state(cluster)
    cluster.job("more", free + 1)
    assert started(cluster) == []
    cluster.job("fits", max(1, free))
    assert started(cluster) == ["fits"] * (free > 0)


@STATES
def test_ensembles_plan_with_the_gpus_that_the_extender_offers(
    state: Callable[[QueuedCluster], None], free: int
) -> None:
    cluster = QueuedCluster(node("n1", 4))
    state(cluster)
    spec = parse_ensemble(ensemble(member("a"))).spec
    assert spec is not None
    found = ClusterGpus(cluster.picture(), {"n1": plain_node("n1")})
    assert [each.gpus for each in usable_nodes(found, spec, ())] == [free]


@pytest.mark.parametrize(("healthy", "capacity"), [(True, 4), (False, 3)])
def test_job_gives_back_the_healthy_gpus_that_no_other_pod_uses(
    *, healthy: bool, capacity: int
) -> None:
    cluster = QueuedCluster(node("n1", 4))
    runs = cluster.start("runs", "n1", gpus=2)
    runs["metadata"]["annotations"] = annotated(runs["metadata"]["uid"], "n1", GPUS[:2])
    gpu(cluster, 0)["healthy"] = healthy
    waiting = {"waitingSince": "2026-01-01T00:00:00Z"}
    cluster.job("fits-later", capacity, status=waiting)
    cluster.job("never", capacity + 1, created="2025-01-01T00:00:00Z", status=waiting)
    reasons = {
        change.job.job.key.name: change.after.reason or ""
        for change in plan(cluster).changes
        if change.after is not None
    }
    assert "node n1 is reserved for this job" in reasons["fits-later"]
    assert "no node has so many healthy GPUs" in reasons["never"]
    cluster.job("now", 2)
    cluster.jobs.pop("fits-later")
    assert started(cluster) == ["now"]
