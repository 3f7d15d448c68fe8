"""A job waits for a better placement beside others, and is tried again when one of them ends."""

import time

import pytest

import workloads
from gputopo.api.waiting import PostponedAnnotation, parse_postponed
from gputopo.runtime.times import unix_seconds
from localcluster import access
from localcluster.access import NodeAccess
from longruns import LONG
from sandbox import Sandbox
from showcase.kubectl import Object, wait_for

pytestmark = pytest.mark.e2e

UTILITY = {"policy": "Utility", "minUtilityPercent": 90}
BETWEEN_QUADS = (2, 3, 4, 5)
"""With these GPUs in use, no quad of the node is free."""

RETRY_SECONDS = 60.0
"""A tried pod is bound within 2 s; a busy machine is slower. Untried pods wait for 5 minutes."""


def fill(sandbox: Sandbox, node: str) -> dict[int, str]:
    """Run pods of one GPU on the GPUs between the quads; return their names by GPU index."""
    names = [f"single-{number}" for number in range(8)]
    sandbox.create(*(workloads.gpu_pod(name, 1, image=sandbox.image, node=node) for name in names))
    sandbox.wait_running(8)
    gpus = sandbox.kubectl.get("gputopology", node)["spec"]["gpus"]
    index_of = {gpu["uuid"]: int(gpu["index"]) for gpu in gpus}
    by_gpu = {index_of[sandbox.gpus_of(name)[0]]: name for name in names}
    sandbox.delete_pods(by_gpu.pop(gpu) for gpu in {*by_gpu} - {*BETWEEN_QUADS})
    return by_gpu


def job(sandbox: Sandbox, name: str, node: str, max_wait_seconds: int) -> None:
    placement = {**UTILITY, "maxWaitSeconds": max_wait_seconds}
    sandbox.create(workloads.gpu_job(name, 4, image=sandbox.image, node=node, placement=placement))


def pod_of(sandbox: Sandbox, name: str) -> Object | None:
    pods = sandbox.kubectl.list("pods", sandbox.namespace, selector=f"gputopo.io/job={name}")
    return pods[0] if pods else None


def record_of(sandbox: Sandbox, name: str) -> PostponedAnnotation | None:
    pod = pod_of(sandbox, name)
    if pod is None:
        return None
    metadata = pod["metadata"]
    return parse_postponed(metadata.get("annotations", {}), metadata["uid"])


def condition(sandbox: Sandbox, name: str) -> Object:
    """Return the condition Postponed of a GPUJob; empty if there is none."""
    status = sandbox.kubectl.get("gpujob", name, sandbox.namespace).get("status", {})
    found = [each for each in status.get("conditions", []) if each["type"] == "Postponed"]
    return found[0] if found else {}


def wait_postponed(sandbox: Sandbox, name: str) -> PostponedAnnotation:
    wait_for(
        f"GPUJob {name} is postponed", lambda: condition(sandbox, name).get("status") == "True"
    )
    record = record_of(sandbox, name)
    assert record is not None
    return record


def wait_bound(sandbox: Sandbox, name: str, timeout_s: float = 60) -> PostponedAnnotation:
    """Wait until the pod of a GPUJob is bound; return the record of its wait."""

    def ended() -> PostponedAnnotation | None:
        record = record_of(sandbox, name)
        return record if record is not None and record.end is not None else None

    return wait_for(f"the pod of {name} is bound", ended, timeout_s=timeout_s)


def event_notes(sandbox: Sandbox, reason: str) -> list[str]:
    events = sandbox.kubectl.list("events", sandbox.namespace)
    return [str(each.get("message")) for each in events if each["reason"] == reason]


def test_job_gets_whole_quad_soon_after_the_pods_on_it_end(sandbox: Sandbox, dgx1: str) -> None:
    singles = fill(sandbox, dgx1)
    job(sandbox, "ring", dgx1, max_wait_seconds=600)
    began = wait_postponed(sandbox, "ring")
    pod = str((pod_of(sandbox, "ring") or {})["metadata"]["name"])
    wait_for(
        "an event of the pod has the reason",
        lambda: "waiting for utility" in sandbox.scheduling_message(pod),
    )
    sandbox.delete_pods([singles[2], singles[3]])
    gone = time.monotonic()
    ended = wait_bound(sandbox, "ring")
    delay = time.monotonic() - gone
    print(f"seconds from the end of the processes to the Binding: {delay:.2f}")
    assert delay < RETRY_SECONDS
    assert ended.end is not None
    assert not ended.end.expired
    assert ended.end.permille > began.now_permille
    wait_for(
        "the condition shows the end of the wait",
        lambda: condition(sandbox, "ring").get("reason") == "ValueReached",
    )
    assert len(event_notes(sandbox, "Postponed")) == 2, "one on the pod, one on the GPUJob"
    sandbox.assert_sources_agree()


@LONG
def test_kills_of_extender_and_kube_scheduler_do_not_move_the_end_of_a_wait(
    sandbox: Sandbox, dgx1: str, nodes: NodeAccess
) -> None:
    fill(sandbox, dgx1)
    job(sandbox, "ring", dgx1, max_wait_seconds=60)
    began = wait_postponed(sandbox, "ring")
    assert access.kill(nodes, "gputopo-extender") > 0
    time.sleep(5.0)
    assert access.kill(nodes, "kube-scheduler") > 0
    assert record_of(sandbox, "ring") == began
    ended = wait_bound(sandbox, "ring", timeout_s=120)
    assert ended.end is not None
    assert ended.end.expired
    assert (ended.since, ended.until) == (began.since, began.until)
    longest = (unix_seconds(ended.until) or 0) - (unix_seconds(ended.since) or 0)
    print(f"waited {ended.end.seconds} s of at most {longest:.0f} s")
    assert longest - 1 <= ended.end.seconds < longest + RETRY_SECONDS
    sandbox.assert_sources_agree()
