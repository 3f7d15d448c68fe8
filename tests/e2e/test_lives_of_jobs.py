"""A GPUJob from its creation to its end, by its status and events."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import workloads
from gputopo.api.names import JOB_LABEL
from sandbox import Sandbox, sandbox_in
from showcase.install import Installed
from showcase.kubectl import Object, wait_for

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def sandbox(installed: Installed, dgx1: str, pcie: str) -> Iterator[Sandbox]:
    """The jobs of all tests, which run side by side on two nodes."""
    with sandbox_in(installed, "lives-of-jobs") as box:

        def job(
            name: str, gpus: int, node: str, script: str = "sleep infinity", **spec: Any
        ) -> Object:
            command = ["sh", "-c", script]
            return workloads.gpu_job(
                name, gpus, image=box.image, node=node, command=command, **spec
            )

        box.create(
            job("short", 8, dgx1, "sleep 1"),
            job("broken", 1, pcie, "exit 3", limits={"backoffLimit": 0}),
            job("later", 1, pcie, suspend=True),
            job("doomed", 2, pcie),
            workloads.gpu_job("huge", 16, image=box.image),
        )
        yield box


def _pods_of(sandbox: Sandbox, job: str) -> Sequence[Object]:
    return sandbox.kubectl.list("pods", sandbox.namespace, selector=f"{JOB_LABEL}={job}")


def _wait_phase(sandbox: Sandbox, name: str, phase: str) -> Object:
    def reached() -> Object | None:
        job = sandbox.kubectl.get("gpujob", name, sandbox.namespace)
        return job if job.get("status", {}).get("phase") == phase else None

    return wait_for(f"GPUJob {name} is {phase}", reached)


def _reasons(sandbox: Sandbox, name: str) -> set[str]:
    events = sandbox.kubectl.list("events", sandbox.namespace)
    return {event["reason"] for event in events if event["involvedObject"].get("name") == name}


def _free_gpus(sandbox: Sandbox, node: str) -> int:
    gpus = sandbox.kubectl.get("gputopology", node)["status"]["gpus"]
    return sum(1 for gpu in gpus if "podUID" not in gpu)


def test_finished_job_succeeds_and_gives_its_gpus_back(sandbox: Sandbox, dgx1: str) -> None:
    job = _wait_phase(sandbox, "short", "Succeeded")
    assert job["status"]["observedGeneration"] == job["metadata"]["generation"]
    wait_for("all GPUs are free again", lambda: _free_gpus(sandbox, dgx1) == 8)
    sandbox.run_job("next", 8, node=dgx1)


def test_failing_job_ends_after_its_backoff_limit(sandbox: Sandbox) -> None:
    job = _wait_phase(sandbox, "broken", "Failed")
    assert job["status"]["failures"] == {"application": 1, "admission": 0}
    wait_for("the event Failed", lambda: "Failed" in _reasons(sandbox, "broken"))


def test_suspended_job_waits_and_runs_when_it_is_resumed(sandbox: Sandbox) -> None:
    _wait_phase(sandbox, "later", "Suspended")
    assert _pods_of(sandbox, "later") == []
    patch = '{"spec":{"suspend":false}}'
    sandbox.kubectl.run(
        *("patch", "gpujob", "later", "-n", sandbox.namespace, "--type=merge", "-p", patch)
    )
    _wait_phase(sandbox, "later", "Running")


def test_deleting_a_job_deletes_its_pods(sandbox: Sandbox) -> None:
    _wait_phase(sandbox, "doomed", "Running")
    assert _pods_of(sandbox, "doomed")
    sandbox.kubectl.run("delete", "gpujob", "doomed", "-n", sandbox.namespace)
    wait_for("no pod is left", lambda: not _pods_of(sandbox, "doomed"))


def test_job_that_does_not_fit_says_why(sandbox: Sandbox) -> None:
    def reason() -> str | None:
        status = sandbox.kubectl.get("gpujob", "huge", sandbox.namespace).get("status", {})
        for condition in status.get("conditions", []):
            if condition["type"] == "Placed" and "gputopo.io/gpu" in condition["message"]:
                return str(condition["message"])
        return None

    message = wait_for("the condition Placed has the scheduler's reason", reason)
    assert "0/" in message, message
