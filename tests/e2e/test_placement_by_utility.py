"""A GPUJob and a pod are placed by utility on a real cluster, and their decisions are repeated."""

import json

import pytest

import workloads
from gputopo.api.names import PLACEMENT_ANNOTATION
from gputopo.utility.communication import sockets
from gputopo_cluster.topologies import GpuNode, known_mask, parse_gpu_node
from gputopo_explain.placed.explanation import explain_placed
from gputopo_explain.placed.replay import ReplayVerdict
from sandbox import Sandbox
from showcase.kubectl import Object

pytestmark = pytest.mark.e2e

TERMS = {
    "utilityPermille",
    "jobUtilityPermille",
    "communicationPermille",
    "interferencePermille",
    "sufferedPermille",
    "fragmentationPermille",
}


def figures_of(pod: Object) -> Object:
    found: Object = json.loads(pod["metadata"]["annotations"][PLACEMENT_ANNOTATION])
    return found


def assert_explained(sandbox: Sandbox, pod: Object) -> None:
    """Check that the decision about a pod can be repeated, and has the terms of the utility."""
    topology = sandbox.kubectl.get("gputopology", pod["spec"]["nodeName"])
    found = explain_placed(pod, topology)
    assert found.replay.verdict is ReplayVerdict.SAME, found.replay.reasons
    assert found.choices is not None
    assert found.choices.utility is not None
    assert found.choices.utility.chosen == figures_of(pod)["utility"]["utilityPermille"]


def test_gpujob_has_the_terms_of_its_utility_in_its_status(sandbox: Sandbox, dgx1: str) -> None:
    placement = sandbox.run_job(
        "train", 2, node=dgx1, placement={"policy": "Utility", "minUtilityPercent": 10}
    )
    assert placement["utility"].keys() == TERMS
    assert all(10 <= value <= 1000 for value in placement["utility"].values())
    assert placement["utility"]["communicationPermille"] == 1000, "all GPUs are free"
    [pod] = sandbox.pods()
    assert figures_of(pod)["utility"] == placement["utility"]
    assert figures_of(pod)["replay"]["utility"]["minimumPercent"] == 10
    assert_explained(sandbox, pod)


def test_pod_fills_the_socket_of_an_earlier_pod(sandbox: Sandbox, dgx1: str) -> None:
    sandbox.wait_for_empty_ledgers()
    first = sandbox.run_pod("first", 2, node=dgx1, policy="Utility")
    second = sandbox.run_pod("second", 2, node=dgx1, policy="Utility")
    node = parse_gpu_node(sandbox.kubectl.get("gputopology", dgx1))
    assert isinstance(node, GpuNode)
    used = known_mask(node.topology, [*sandbox.gpus_of(first), *sandbox.gpus_of(second)])
    figures = [figures_of(pod) for pod in sandbox.pods()]
    assert used in sockets(node.topology), f"the four GPUs of a socket have NVLinks: {figures}"
    for pod in sandbox.pods():
        assert workloads.phase(pod) == "Running"
        assert figures_of(pod)["policy"] == "Utility"
        assert figures_of(pod)["utility"].keys() == TERMS
        assert_explained(sandbox, pod)
