"""The operator starts GPUJobs one after another, as their objects in the API server show it."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputopo.api.names import RESOURCE
from gputopo_operator.parse.jobs import QUEUE_LABEL
from support.api.server import ApiServer, serving_in_thread
from support.builders.gpujobs import Document, exited, gpu_job, job_pod
from support.operator.process import Operator, eventually, running
from support.operator.queue import node, plain_node

NODE, GPUS = "n1", 2


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Operator]:
    """An operator with the queue order SRTF, on a node with two GPUs."""
    with serving_in_thread(ApiServer()) as api:
        api.create("gputopologies", node(NODE, GPUS))
        api.create("nodes", plain_node(NODE))
        operator = Operator(api, tmp_path, arguments=["--queue-order", "SRTF"])
        with running(operator):
            yield operator


def create(operator: Operator, name: str, gpus: int, seconds: int, **fields: object) -> None:
    job = gpu_job(name, gpusPerReplica=gpus, expected={"durationSeconds": seconds})
    job["metadata"] |= fields
    assert operator.api.create("gpujobs", job) is not None


def is_started(operator: Operator, name: str) -> bool:
    return operator.wait_child(name)["spec"]["suspend"] is False


def position(operator: Operator, name: str) -> int | None:
    job = operator.api.get("gpujobs", name) or {}
    found: int | None = job.get("status", {}).get("queue", {}).get("position")
    return found


def run_pod(operator: Operator, name: str, gpus: int) -> None:
    """Run the pod of a started job, as the Job controller, scheduler and agent do."""
    pod = job_pod(operator.wait_child(name), f"{name}-1", node=NODE, phase="Running")
    pod["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: str(gpus)}}
    created = operator.api.create("pods", pod)
    assert created is not None
    report(operator, dict.fromkeys(range(gpus), created["metadata"]["uid"]))


def finish(operator: Operator, name: str) -> None:
    condition = {"type": "Complete", "status": "True", "reason": "Done", "message": ""}
    operator.api.change("pods", f"{name}-1", lambda pod: pod.update(status=exited(0)))
    operator.api.change("jobs", name, lambda job: job.update(status={"conditions": [condition]}))
    report(operator, {})


def report(operator: Operator, users: dict[int, str]) -> None:
    def change(topology: Document) -> None:
        topology["status"] = node(NODE, GPUS, users)["status"]

    operator.api.change("gputopologies", NODE, change)


def test_jobs_start_in_the_order_of_the_queue(queue: Operator) -> None:
    create(queue, "first", 2, 1000)
    eventually("first starts", lambda: is_started(queue, "first"))
    run_pod(queue, "first", 2)
    create(queue, "long", 2, 500)
    create(queue, "short", 1, 100)
    eventually("short is first", lambda: position(queue, "short") == 1)
    eventually("long is second", lambda: position(queue, "long") == 2)
    queue.wait_condition("long", "Suspended", "Queued")
    assert not is_started(queue, "short")
    finish(queue, "first")
    eventually("short starts", lambda: is_started(queue, "short"))
    eventually("long is first", lambda: position(queue, "long") == 1)
    queue.wait_condition("short", "Suspended", "Admitted")
    queue.wait_event("short", "Admitted")
    assert not is_started(queue, "long")
    metrics = urllib.request.urlopen(queue.metrics_url).read().decode()  # noqa: S310
    assert "gputopo_operator_waiting_gpujobs 1.0" in metrics


def test_killed_operator_continues_with_the_queue(queue: Operator) -> None:
    create(queue, "first", 2, 1000)
    eventually("first starts", lambda: is_started(queue, "first"))
    create(queue, "second", 2, 1000)
    eventually("second waits", lambda: position(queue, "second") == 1)
    before = queue.api.get("gpujobs", "second")
    assert before is not None
    queue.kill()
    # The pod of the first job is not bound yet, and its GPUs count as used.
    create(queue, "third", 2, 10)
    queue.start()
    eventually("third is before second", lambda: position(queue, "second") == 2)
    after = queue.api.get("gpujobs", "second")
    assert after is not None
    since = "waitingSince"
    assert after["status"]["queue"][since] == before["status"]["queue"][since]
    assert is_started(queue, "first")
    assert not is_started(queue, "third")
    assert [reason for reason, _ in queue.events("first")].count("Admitted") == 1


def test_users_suspension_and_kueue_have_priority(queue: Operator) -> None:
    create(queue, "kueue", 1, 10, labels={QUEUE_LABEL: "research"})
    create(queue, "train", 2, 10)
    eventually("train starts", lambda: is_started(queue, "train"))
    assert not is_started(queue, "kueue")
    queue.api.change("gpujobs", "train", lambda job: job["spec"].update(suspend=True))
    queue.wait_condition("train", "Suspended", "SuspendedByUser")
    create(queue, "next", 2, 10)
    eventually("next starts", lambda: is_started(queue, "next"))
    queue.api.change("gpujobs", "train", lambda job: job["spec"].update(suspend=False))
    queue.wait_condition("train", "Suspended", "Queued")
    eventually("train waits", lambda: position(queue, "train") == 1)
    assert position(queue, "kueue") is None
    queue.api.delete("gpujobs", "next")
    eventually("train starts again", lambda: is_started(queue, "train"))


def test_deleted_node_offers_no_gpus(queue: Operator) -> None:
    queue.api.delete("gputopologies", NODE)
    create(queue, "train", 1, 10)
    eventually("train waits", lambda: position(queue, "train") == 1)
    queue.api.create("gputopologies", node("n2", 1))
    queue.api.create("nodes", plain_node("n2"))
    eventually("train starts", lambda: is_started(queue, "train"))


def test_cordoned_node_takes_no_job_until_it_is_uncordoned(queue: Operator) -> None:
    queue.api.change("nodes", NODE, lambda node: node["spec"].update(unschedulable=True))
    create(queue, "train", 1, 10)
    eventually("train waits", lambda: position(queue, "train") == 1)
    queue.api.change("nodes", NODE, lambda node: node["spec"].pop("unschedulable"))
    eventually("train starts", lambda: is_started(queue, "train"))


def test_job_does_not_start_on_a_node_that_its_node_selector_excludes(queue: Operator) -> None:
    template = gpu_job("train")["spec"]["template"]
    template["spec"]["nodeSelector"] = {"pool": "b"}
    job = gpu_job("train", gpusPerReplica=1, template=template)
    assert queue.api.create("gpujobs", job) is not None
    eventually("train waits", lambda: position(queue, "train") == 1)
    queue.api.change("nodes", NODE, lambda node: node["metadata"].update(labels={"pool": "b"}))
    eventually("train starts", lambda: is_started(queue, "train"))
