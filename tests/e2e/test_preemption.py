"""A pod of higher priority preempts others and runs on their GPUs."""

import uuid
from collections.abc import Iterator

import pytest

import workloads
from gputopo.api.names import SENSITIVITY_ANNOTATION
from sandbox import Sandbox
from showcase.kubectl import Kubectl, Object, wait_for

pytestmark = pytest.mark.e2e


@pytest.fixture
def priorities(kubectl: Kubectl) -> Iterator[tuple[str, str]]:
    """Names of a low and of a high PriorityClass."""
    suffix = uuid.uuid4().hex[:6]
    names = (f"low-{suffix}", f"high-{suffix}")
    for name, value in zip(names, (1, 1000), strict=True):
        kubectl.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    yield names
    kubectl.run("delete", "priorityclass", *names)


def prioritized(pod: Object, priority: str) -> Object:
    return {**pod, "spec": {**pod["spec"], "priorityClassName": priority}}


def test_a_ring_of_four_runs_on_the_gpus_of_the_four_that_were_ended_for_it(
    sandbox: Sandbox, dgx1: str, priorities: tuple[str, str]
) -> None:
    low, high = priorities
    names = [f"low-{number}" for number in range(8)]
    for name in names:
        pod = workloads.gpu_pod(name, 1, image=sandbox.image, node=dgx1)
        sandbox.create(prioritized(pod, low))
    sandbox.wait_running(8)
    held = {name: sandbox.gpus_of(name) for name in names}

    ring = workloads.gpu_pod(
        "ring", 4, image=sandbox.image, node=dgx1, annotations={SENSITIVITY_ANNOTATION: "Sensitive"}
    )
    sandbox.create(prioritized(ring, high))
    sandbox.wait_running(1, only="ring")

    def only_four_are_left() -> list[str] | None:
        left = [pod["metadata"]["name"] for pod in sandbox.pods()]
        return left if len(left) == 5 else None

    left = wait_for("four pods were ended", only_four_are_left)
    freed = {gpu for name in set(names) - set(left) for gpu in held[name]}
    assert set(sandbox.gpus_of("ring")) == freed
    assert len(sandbox.assert_sources_agree()) == 5
