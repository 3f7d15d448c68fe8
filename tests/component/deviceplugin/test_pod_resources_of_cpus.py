"""The agent reads exclusive CPUs from kubelet's pod-resources API."""

from pathlib import Path

import pytest

from gputopo.api.names import RESOURCE
from gputopo_deviceplugin.kubelet.pod_resources import PodResourcesClient, PodResourcesError
from gputopo_deviceplugin.kubelet.podresources import api_pb2 as podresources
from support.kubelet.raw_server import raw_kubelet


async def test_allocatable_cpus_are_read_and_garbage_is_an_error(tmp_path: Path) -> None:
    with raw_kubelet(tmp_path / "kubelet.sock") as raw:
        client = PodResourcesClient(tmp_path / "kubelet.sock", "gputopo.io/gpu")
        try:
            raw.response = podresources.AllocatableResourcesResponse(
                cpu_ids=[1, 3]
            ).SerializeToString()
            assert await client.allocatable_cpus(5) == {1, 3}
            raw.response = b"\xff half of a message"
            with pytest.raises(PodResourcesError, match="not a message of this API"):
                await client.allocatable_cpus(5)
        finally:
            await client.close()


async def test_exclusive_cpus_of_a_container_are_listed(tmp_path: Path) -> None:
    containers = [{"name": "main", "cpu_ids": [2, 3]}, {"name": "shared"}]
    pod = {"namespace": "default", "name": "p", "containers": containers}
    with raw_kubelet(tmp_path / "kubelet.sock") as raw:
        raw.response = podresources.ListPodResourcesResponse(
            pod_resources=[pod]
        ).SerializeToString()
        client = PodResourcesClient(tmp_path / "kubelet.sock", "gputopo.io/gpu")
        try:
            (listed,) = await client.list_pods(5)
        finally:
            await client.close()
    assert listed.cpus == {"main": {2, 3}}


@pytest.mark.parametrize(
    ("containers", "text"),
    [
        ([{"name": "main"}, {"name": "main"}], "container main is listed twice"),
        (
            [{"name": "main", "devices": [{"resource_name": RESOURCE, "device_ids": ["x" * 64]}]}],
            f"device name '{'x' * 64}' is not valid",
        ),
    ],
)
async def test_lists_that_kubelet_never_returns_are_errors(
    tmp_path: Path, containers: list[dict[str, object]], text: str
) -> None:
    pod = {"namespace": "default", "name": "p", "containers": containers}
    with raw_kubelet(tmp_path / "kubelet.sock") as raw:
        raw.response = podresources.ListPodResourcesResponse(
            pod_resources=[pod]
        ).SerializeToString()
        client = PodResourcesClient(tmp_path / "kubelet.sock", RESOURCE)
        try:
            with pytest.raises(PodResourcesError, match=text):
                await client.list_pods(5)
        finally:
            await client.close()
