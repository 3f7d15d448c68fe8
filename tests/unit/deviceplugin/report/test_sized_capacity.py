"""What a node has for pods that gputopo sizes: the rest beside all other pods."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from gputopo.api.names import RESOURCE, RESOURCES_MODE_ANNOTATION, TUNED_LABEL
from gputopo.api.v1alpha1 import SizedCapacity
from gputopo_deviceplugin.apiserver.node_api import parse_node_pod
from gputopo_deviceplugin.report.sized_capacity import CapacityReport, sized_capacity
from gputopo_kube.document import ObjectKey
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView
from support.builders.objects import pod

GIB = 2**30
NODE = {"status": {"allocatable": {"cpu": "8", "memory": "64Gi", RESOURCE: "4"}}}


def container(name: str = "main", cpu: str = "1", gpus: int = 0) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "1Gi"} | ({RESOURCE: str(gpus)} if gpus else {})
    return {"name": name, "image": "x", "resources": {"requests": requests, "limits": requests}}


def parsed(
    name: str,
    *containers: dict[str, Any],
    sized: bool = False,
    spec: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> PodView:
    document = pod(name, node="n1", containers=[*containers], **more)
    document["spec"].update(spec)
    if sized:
        document["metadata"]["labels"] = {TUNED_LABEL: "true"}
        document["metadata"]["annotations"] = {RESOURCES_MODE_ANNOTATION: "Auto"}
    return parse_node_pod(document, RESOURCE)


def test_other_pods_and_their_gpus_are_not_available_for_sized_pods() -> None:
    pods = [
        parsed("daemon", container()),
        parsed("fixed", container(cpu="2", gpus=1)),
        parsed("ended", container(cpu="4", gpus=1), phase="Succeeded"),
    ]
    found = sized_capacity(NODE, pods, RESOURCE)
    assert found == SizedCapacity(milli_cpu=5000, memory=62 * GIB, gpus=3)


def test_container_that_gputopo_sizes_does_not_count_but_those_beside_it_do() -> None:
    pods = [parsed("auto", container(cpu="6", gpus=2), container("log", "500m"), sized=True)]
    found = sized_capacity(NODE, pods, RESOURCE)
    assert found == SizedCapacity(milli_cpu=7500, memory=63 * GIB, gpus=4)


def test_pod_in_an_unknown_format_uses_its_cpus_unless_it_requests_gpus() -> None:
    newer = parsed("log", container(), spec={"schedulingGroup": "a-name"})
    assert (newer.key, newer.uid, newer.node) == (ObjectKey("default", "log"), "uid-log", "n1")
    found = sized_capacity(NODE, [newer], RESOURCE)
    assert found == SizedCapacity(milli_cpu=7000, memory=63 * GIB, gpus=4)
    whole = {"requests": {"cpu": "2"}}
    of_pod = parsed("log", container(), spec={"schedulingGroup": "a-name", "resources": whole})
    found = sized_capacity(NODE, [of_pod], RESOURCE)
    assert found is not None
    assert found.milli_cpu == 6000
    with pytest.raises(PodError, match=r"default/train: pod spec\.schedulingGroup: 'a-name'"):
        parsed("train", container(gpus=1), spec={"schedulingGroup": "a-name"})


def test_pods_that_request_too_much_leave_nothing() -> None:
    pods = [parsed("large", container(cpu="90", gpus=8))]
    found = sized_capacity({"status": {}}, pods, RESOURCE)
    assert found == SizedCapacity(milli_cpu=0, memory=0, gpus=0)
    huge = {"status": {"allocatable": {"cpu": "9E", "memory": "9E", RESOURCE: "999"}}}
    most = SizedCapacity(milli_cpu=2**53 - 1, memory=2**53 - 1, gpus=64)
    assert sized_capacity(huge, [], RESOURCE) == most


def test_capacity_is_unknown_before_the_node_was_read() -> None:
    assert sized_capacity({}, [], RESOURCE) is None


KNOWN = SizedCapacity(milli_cpu=8000, memory=64 * GIB, gpus=4)


@pytest.mark.parametrize(
    ("change", "is_published"),
    [
        ({"milli_cpu": 7841}, False),
        ({"milli_cpu": 7839}, True),
        ({"memory": 65 * GIB}, False),
        ({"memory": 62 * GIB}, True),
        ({"gpus": 3}, True),
    ],
)
def test_small_changes_are_not_published(change: dict[str, int], *, is_published: bool) -> None:
    now = KNOWN.model_copy(update=change)
    report = CapacityReport(0)
    assert report.update(KNOWN) == KNOWN
    assert report.update(now) == (now if is_published else KNOWN)


def test_changes_are_published_once_in_an_interval() -> None:
    seconds = 100.0
    report = CapacityReport(30, lambda: seconds)
    first, second = (KNOWN.model_copy(update={"gpus": gpus}) for gpus in (3, 2))
    assert report.update(KNOWN) == KNOWN
    seconds += 29
    assert report.update(first) == KNOWN
    seconds += 1
    assert report.update(second) == second


def test_known_capacity_stays_published_while_it_is_unknown() -> None:
    report = CapacityReport(0)
    assert report.update(None) is None
    assert report.update(KNOWN) == KNOWN
    assert report.update(None) == KNOWN
