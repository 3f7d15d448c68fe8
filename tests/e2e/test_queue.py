"""The queue starts GPUJobs one after another."""

import pytest

import workloads
from charts import QUEUE_AND_PAGE
from learning import column
from sandbox import Sandbox
from showcase.kubectl import Object, wait_for

pytestmark = [pytest.mark.e2e, QUEUE_AND_PAGE]


def test_second_job_of_a_node_starts_when_the_first_has_ended(sandbox: Sandbox, dgx1: str) -> None:
    def status(name: str) -> Object:
        found: Object = sandbox.kubectl.get("gpujob", name, sandbox.namespace).get("status", {})
        return found

    def waits() -> Object | None:
        queue = status("second").get("queue", {})
        return queue if queue.get("position") == 1 else None

    sandbox.run_job("first", 8, node=dgx1)
    sandbox.create(workloads.gpu_job("second", 8, image=sandbox.image, node=dgx1))
    queue = wait_for("the second job has a position in the queue", waits)
    assert queue["reason"].startswith("waiting for 8 free GPUs")
    assert status("second")["phase"] == "Queued"
    table = sandbox.kubectl.run("get", "gj", "-o", "wide", "-n", sandbox.namespace)
    print(table)
    assert column(table, "QUEUE") == ["", "1"]
    sandbox.kubectl.run("delete", "gpujob", "first", "-n", sandbox.namespace)
    wait_for("the second job runs", lambda: status("second").get("phase") == "Running")
    assert "position" not in status("second").get("queue", {})
