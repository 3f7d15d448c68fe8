import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION, PROFILE_ANNOTATION
from gputopo.bandwidth.models import PHYSICAL
from gputopo.catalogue import named
from gputopo_deviceplugin.admit.usage import GpuUser
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.measure.containers import ContainerKey, measured_containers
from gputopo_deviceplugin.measure.environment import (
    PHYSICAL_MODEL,
    Environment,
    LinkBandwidth,
    Neighbour,
    environment_of,
)
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.podruntime import ContainerRuntime, PodRuntime
from gputopo_kube.pods import PodView

TOPOLOGY = named("dgx1-v100", node="n1")
UUIDS = [gpu.uuid for gpu in TOPOLOGY.gpus]
HARDWARE = NodeHardware(TOPOLOGY, dict.fromkeys(UUIDS), None)
PLACEMENT = {
    "policy": "preserve",
    "pattern": "Ring",
    "sensitive": True,
    "reason": "test",
    "aggregateMBps": 1,
    "preservedMBps": 1,
    "physicalMBps": 40,
    "physicalWorstMBps": 10,
    "physicalBestMBps": 50,
}


def pod(name: str, gpus: Sequence[int], **changes: Any) -> PodView:
    """Return a pod with one container "main" that was placed on these GPUs."""
    annotation = {
        "uid": f"uid-{name}",
        "node": "n1",
        "generation": 1,
        "containers": {"main": [UUIDS[index] for index in gpus]},
    }
    placed = {
        GPUS_ANNOTATION: json.dumps(annotation),
        PLACEMENT_ANNOTATION: json.dumps(PLACEMENT),
        PROFILE_ANNOTATION: f"profile-{name}",
    }
    annotations = placed | changes.pop("annotations", {})
    containers = changes.pop("containers", (GpuContainer("main", len(gpus)),))
    key = ObjectKey(changes.pop("namespace", "default"), name)
    return PodView(
        f"uid-{name}", key, node="n1", containers=containers, annotations=annotations, **changes
    )


def environment(
    own: PodView,
    gpus: Sequence[int],
    others: Mapping[int, PodView | GpuUser] | None = None,
    hardware: NodeHardware = HARDWARE,
) -> Environment | None:
    """Return the environment of container "main" of ``own``, which uses these GPUs."""
    found = [own, *(others or {}).values()]
    pods = {each.key: each for each in found if isinstance(each, PodView)}
    using = {**(others or {}), **dict.fromkeys(gpus, own)}
    users = {UUIDS[index]: GpuUser(each.key, "main", each.uid) for index, each in using.items()}
    container = measured_containers(users, pods, reads_logs=True)[ContainerKey(own.uid, "main")]
    return environment_of(container, users, pods, hardware)


def known(*arguments: Any, **options: Any) -> Environment:
    found = environment(*arguments, **options)
    assert found is not None
    return found


def test_it_has_profile_gpus_model_and_runtime() -> None:
    runtime = ContainerRuntime(2000, 2**30, "sha256:1")
    own = pod("a", [0, 3], runtime=PodRuntime(None, {"main": runtime}))
    found = known(own, [0, 3])
    assert (found.profile, found.source) == ("profile-a", "SDK")
    assert found.gpus == {UUIDS[0], UUIDS[3]}
    assert found.gpu_model == TOPOLOGY.gpus[0].model
    assert found.runtime == runtime
    assert (found.on_socket, found.on_node) == ((), ())
    assert known(pod("b", [0]), [0]).runtime == ContainerRuntime()


def test_neighbours_are_pods_on_the_same_numa_nodes_and_on_the_node() -> None:
    # GPUs 0 to 3 of the server belong to NUMA node 0, and 4 to 7 to NUMA node 1.
    near, far = pod("near", [1, 2]), pod("far", [5], namespace="other")
    found = known(pod("a", [0]), [0], {1: near, 2: near, 5: far})
    on_socket, on_node = Neighbour("default/profile-near", "uid-near"), "other/profile-far"
    assert found.on_socket == (on_socket,)
    assert found.on_node == (on_socket, Neighbour(on_node, "uid-far"))
    both = known(pod("a", [0, 4]), [0, 4], {1: near, 5: far})
    assert both.on_socket == both.on_node


def test_a_neighbour_without_a_profile_has_only_its_namespace() -> None:
    plain = replace(pod("b", [1]), annotations={})
    invalid = replace(pod("c", [2]), annotations={PROFILE_ANNOTATION: "No Name"})
    deleted = GpuUser(ObjectKey("gone", "d"), "main", "uid-d")
    unread = GpuUser(ObjectKey("new", "e"), "main", None)
    found = known(pod("a", [0]), [0], {1: plain, 2: invalid, 3: deleted, 4: unread})
    names = ["default/", "default/", "gone/", "new/"]
    assert [each.workload for each in found.on_node] == names


def test_another_pod_of_the_same_workload_is_another_environment() -> None:
    first = pod("b", [1], annotations={PROFILE_ANNOTATION: "same"})
    second = pod("c", [1], annotations={PROFILE_ANNOTATION: "same"})
    own = pod("a", [0])
    assert known(own, [0], {1: first}) != known(own, [0], {1: second})
    assert hash(known(own, [0], {1: first})) == hash(known(own, [0], {1: first}))


def test_the_bandwidths_are_those_of_the_physical_model() -> None:
    assert known(pod("a", [0, 3]), [0, 3]).bandwidth == LinkBandwidth("Ring", 40, 10, 50)
    assert PHYSICAL.name == PHYSICAL_MODEL


TWO_CONTAINERS = {"main": [UUIDS[0], UUIDS[3]], "other": [UUIDS[1]]}


@pytest.mark.parametrize(
    "annotations",
    [
        {PLACEMENT_ANNOTATION: "{"},
        {PLACEMENT_ANNOTATION: json.dumps(PLACEMENT | {"physicalMBps": None})},
        {PLACEMENT_ANNOTATION: json.dumps(PLACEMENT | {"physicalWorstMBps": None})},
        {PLACEMENT_ANNOTATION: json.dumps(PLACEMENT | {"physicalBestMBps": None})},
        {PLACEMENT_ANNOTATION: json.dumps(PLACEMENT | {"physicalMBps": -1})},
        {PLACEMENT_ANNOTATION: json.dumps(PLACEMENT | {"physicalBestMBps": 2**53})},
        {GPUS_ANNOTATION: pod("b", [0, 3]).annotations[GPUS_ANNOTATION]},
        {GPUS_ANNOTATION: pod("a", [0, 4]).annotations[GPUS_ANNOTATION]},
        {
            GPUS_ANNOTATION: json.dumps(
                {"uid": "uid-a", "node": "n1", "generation": 1, "containers": TWO_CONTAINERS}
            )
        },
    ],
)
def test_without_a_decision_about_exactly_these_gpus_there_are_no_bandwidths(
    annotations: Mapping[str, str],
) -> None:
    assert known(pod("a", [0, 3], annotations=annotations), [0, 3]).bandwidth is None


def test_unplaced_pods_and_single_gpus_have_no_bandwidths() -> None:
    assert known(replace(pod("a", [0, 3]), annotations={}), [0, 3]).bandwidth is None
    unexplained = pod("a", [0, 3])
    annotations = {GPUS_ANNOTATION: unexplained.annotations[GPUS_ANNOTATION]}
    assert known(replace(unexplained, annotations=annotations), [0, 3]).bandwidth is None
    assert known(pod("a", [0]), [0]).bandwidth is None


def test_gpus_of_several_models_are_named_together() -> None:
    gpus = tuple(replace(gpu, model="A100") if gpu.index == 3 else gpu for gpu in TOPOLOGY.gpus)
    mixed = replace(HARDWARE, topology=replace(TOPOLOGY, gpus=gpus))
    assert known(pod("a", [0, 3]), [0, 3], hardware=mixed).gpu_model == (
        f"A100, {TOPOLOGY.gpus[0].model}"
    )


@pytest.mark.parametrize(
    "hardware",
    [
        NodeHardware(TOPOLOGY, dict.fromkeys(UUIDS) | {UUIDS[0]: "XID 48"}, None),
        NodeHardware(TOPOLOGY, {}, None),
        NodeHardware(None, dict.fromkeys(UUIDS), None),
        NodeHardware(TOPOLOGY, dict.fromkeys(UUIDS, "NVML hangs"), "NVML hangs"),
    ],
)
def test_an_unhealthy_or_unknown_gpu_has_no_environment(hardware: NodeHardware) -> None:
    assert environment(pod("a", [0, 1]), [0, 1], hardware=hardware) is None
    healthy = NodeHardware(TOPOLOGY, dict.fromkeys(UUIDS) | {UUIDS[0]: "XID 48"}, None)
    assert environment(pod("a", [1]), [1], hardware=healthy) is not None
