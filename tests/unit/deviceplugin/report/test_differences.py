"""Differences between kubelet's pod-resources list and the annotations."""

import json
from collections.abc import Mapping

from gputopo.api.names import GPUS_ANNOTATION
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.report.differences import find_differences
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.pods import PodView

KEY = ObjectKey("default", "a")


def pod(placed: Mapping[str, list[str]] | None, *, running: bool = True) -> PodView:
    annotation = {"uid": "uid-a", "node": "n1", "generation": 1, "containers": placed}
    return PodView(
        uid="uid-a",
        key=KEY,
        node="n1",
        containers=(GpuContainer("main", 1),),
        annotations={} if placed is None else {GPUS_ANNOTATION: json.dumps(annotation)},
        phase="Running" if running else "Pending",
    )


def messages(record: PodView, **containers: set[str]) -> list[str]:
    entries = {name: frozenset(map(GpuUuid, gpus)) for name, gpus in containers.items()}
    found = find_differences([ListedPod(KEY, entries)], {record.key: record}, "n1")
    return [difference.message for difference in found]


def test_intended_gpus_in_any_order_are_no_difference() -> None:
    assert messages(pod({"main": ["GPU-2", "GPU-1"]}), main={"GPU-1", "GPU-2"}, log=set()) == []


def test_other_more_and_fewer_gpus_are_reported_with_both_sets() -> None:
    assert messages(pod({"main": ["GPU-2", "GPU-1"]}), main={"GPU-3"}) == [
        "pod default/a: container main should have GPU-1 GPU-2, but kubelet lists GPU-3"
    ]
    assert messages(pod({"main": ["GPU-1"]}), main={"GPU-1", "GPU-2"}, log={"GPU-3"}) == [
        "pod default/a: container main should have GPU-1, but kubelet lists GPU-1 GPU-2",
        "pod default/a: container log should have none, but kubelet lists GPU-3",
    ]


def test_a_container_without_gpus_is_reported_once_its_pod_runs() -> None:
    assert messages(pod({"main": ["GPU-1"]}, running=False), main=set()) == []
    assert messages(pod({"main": ["GPU-1"]}), main=set()) == [
        "pod default/a: container main should have GPU-1, but kubelet lists none"
    ]


def test_gpus_without_a_placement_are_reported_with_the_reason() -> None:
    [text] = messages(pod(None), main={"GPU-1"})
    assert text.startswith(
        "pod default/a: container main should have none, but kubelet lists GPU-1"
    )
    reason = "pod default/a was not placed by gputopo: set schedulerName: gputopo and no nodeName"
    assert text.endswith(f"({reason})")


def test_pods_that_the_api_server_does_not_know_are_skipped() -> None:
    entries = [ListedPod(KEY, {"main": frozenset([GpuUuid("GPU-1")])})]
    assert find_differences(entries, {}, "n1") == []
