"""``gputopo doctor`` finds variables in pods that replace those of the node agent."""

from copy import deepcopy
from typing import Any

import pytest

from support.api.static import StaticApi
from support.cli.broken_cluster import findings
from support.cli.command_line import Command
from support.cli.healthy_cluster import PODS

TRAIN, WEB = 0, 2
NVIDIA = "NVIDIA_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"
FROM_FIELD = {"name": NVIDIA, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
REPLACES = ": this replaces gputopo's value, which lists the GPUs in rank order"
SEES = ": if NVIDIA's runtime accepts this variable, the container sees GPUs of other pods"


def set_env(api: StaticApi, index: int, *env: dict[str, Any]) -> dict[str, Any]:
    """Set the environment of a pod's container, and return the pod."""
    pod: dict[str, Any] = api.lists[PODS][index]
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "all"}, *env]
    return pod


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"name": NVIDIA, "value": "all"}, f"container main sets {NVIDIA} to 'all'{SEES}"),
        (FROM_FIELD, f"container main sets {NVIDIA} to a value by valueFrom{SEES}"),
        (
            {"name": CUDA, "value": "0"},
            f"container main sets {CUDA}{REPLACES}",
        ),
    ],
    ids=["all GPUs", "value from a field", "rank order"],
)
def test_gpu_pod_that_overrides_the_agents_variables_is_an_error(
    api: StaticApi, gputopo: Command, env: dict[str, Any], problem: str
) -> None:
    set_env(api, TRAIN, env)
    assert findings(gputopo) == [("environment", "error", "Pod default/train", problem)]


def without_gpus(api: StaticApi, *env: dict[str, Any]) -> dict[str, Any]:
    pod = set_env(api, WEB, *env)
    del pod["spec"]["containers"][0]["resources"]
    return pod


@pytest.mark.parametrize("field", ["containers", "initContainers", "ephemeralContainers"])
def test_pod_without_gpus_that_requests_them_from_nvidias_runtime_is_a_warning(
    api: StaticApi, gputopo: Command, field: str
) -> None:
    pod = without_gpus(api, {"name": NVIDIA, "value": "all"}, {"name": CUDA, "value": "0"})
    pod["spec"] |= {"containers": [{"name": "other"}], field: pod["spec"]["containers"]}
    problem = f"container main sets {NVIDIA} to 'all'{SEES}"
    assert findings(gputopo) == [("environment", "warning", "Pod default/web", problem)]


@pytest.mark.parametrize("value", [{"value": "void"}, {"value": "none"}, {"value": ""}, {}])
def test_values_that_hide_gpus_are_fine(
    api: StaticApi, gputopo: Command, value: dict[str, str]
) -> None:
    without_gpus(api, {"name": NVIDIA, **value})
    assert findings(gputopo) == []


def test_ended_pods_and_pods_of_other_nodes_are_ignored(api: StaticApi, gputopo: Command) -> None:
    ended = without_gpus(api, {"name": NVIDIA, "value": "all"})
    ended["status"]["phase"] = "Succeeded"
    elsewhere = {"metadata": {"name": "cpu", "namespace": "default", "uid": "uid-cpu"}}
    container = {"name": "main", "env": [{"name": NVIDIA, "value": "all"}]}
    spec = {"nodeName": "n3", "containers": [container]}
    api.lists[PODS].append({**elsewhere, "spec": spec, "status": {"phase": "Running"}})
    assert findings(gputopo) == []


def test_agent_and_mps_may_see_all_gpus(api: StaticApi, gputopo: Command) -> None:
    everything = [{"name": NVIDIA, "value": "all"}]
    for pod in api.lists[PODS]:
        if pod["metadata"]["name"].startswith("gputopo-deviceplugin"):
            pod["spec"]["containers"][0]["env"] = everything
            mps = deepcopy(pod)
    mps["metadata"]["name"] = "gputopo-mps-n1"
    mps["metadata"]["labels"]["app.kubernetes.io/component"] = "mps"
    api.lists[PODS].append(mps)
    assert findings(gputopo) == []
