"""The operator starts GPUJobs one after another with its own rights, on a real API server."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.builders.gpujobs import gpu_job
from support.control_plane import api_server
from support.control_plane.api_server import JOBS, ApiServer, service_account
from support.control_plane.components import running_operator
from support.control_plane.scheduler_pairs import put_nodes, wait_until
from support.helm_chart import Helm

BATCH = "/apis/batch/v1/namespaces/default/jobs"
OPERATOR = service_account("gputopo-operator")
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def queue(kubernetes_binaries: Path, helm: Helm, tmp_path: Path) -> Iterator[ApiServer]:
    """An API server with two nodes of 8 GPUs, and an operator with the queue order FIFO."""
    with api_server.running(kubernetes_binaries, tmp_path) as server:
        helm.install(server.kubeconfig, {"operator": {"queue": {"order": "FIFO"}}})
        api_server.wait_for_policies(server)
        put_nodes(server, 2)
        with running_operator(server, tmp_path, resync_seconds=60.0, queue_order="FIFO"):
            yield server


def create(server: ApiServer, name: str, gpus: int, **spec: Any) -> None:
    response = server.create(JOBS, gpu_job(name, gpusPerReplica=gpus, **spec))
    assert response.accepted, response.message


def child(server: ApiServer, name: str) -> dict[str, Any]:
    return server.get(f"{BATCH}/{name}").body


def is_started(server: ApiServer, name: str) -> bool:
    return child(server, name).get("spec", {}).get("suspend") is False


def position(server: ApiServer, name: str) -> int | None:
    status = server.get(f"{JOBS}/{name}").body.get("status", {})
    found: int | None = status.get("queue", {}).get("position")
    return found


def test_queue_works_with_the_rights_of_the_chart(queue: ApiServer) -> None:
    high = {"metadata": {"name": "high"}, "value": 1000}
    assert queue.create(CLASSES, high).accepted
    for name, gpus in (("five", 5), ("four", 4)):
        create(queue, name, gpus)
        wait_until(partial(is_started, queue, name), seconds=60)
    create(queue, "large", 8)
    wait_until(lambda: position(queue, "large") == 1, seconds=60)
    create(queue, "urgent", 8, priorityClassName="high")
    wait_until(lambda: position(queue, "urgent") == 1, seconds=60)
    wait_until(lambda: position(queue, "large") == 2, seconds=60)

    # An overdue job comes first, and a small job is kept off the node that is reserved for it.
    long_ago = {"status": {"queue": {"waitingSince": "2026-01-01T00:00:00Z"}}}
    assert queue.merge(f"{JOBS}/large/status", long_ago, OPERATOR).accepted
    wait_until(lambda: position(queue, "large") == 1, seconds=60)
    create(queue, "small", 1)
    wait_until(lambda: is_started(queue, "small"), seconds=60)
    affinity = child(queue, "small")["spec"]["template"]["spec"]["affinity"]
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    waits = queue.get(f"{JOBS}/large").body["status"]["queue"]
    (avoided,) = term["matchFields"][0]["values"]
    assert waits["reservedNode"] == avoided
    assert f"node {avoided} is reserved for this job" in waits["reason"]

    table = queue.table(f"{JOBS}/large")
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert table["rows"][0]["cells"][columns.index("Queue")] == 1
