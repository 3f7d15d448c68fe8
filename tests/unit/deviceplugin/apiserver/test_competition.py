from collections.abc import Collection, Iterable
from typing import Any

import pytest

from gputopo.api.names import RESOURCE
from gputopo_deviceplugin.apiserver.competition import find_competitor
from gputopo_deviceplugin.settings import AgentSettings

DEFAULTS = AgentSettings(node="n1")


def offering(name: str, amount: str = "4") -> dict[str, Any]:
    return {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", name: amount}}}


def slice_of(driver: str, devices: int, node: str = "n1") -> dict[str, Any]:
    named = [{"name": f"gpu-{index}"} for index in range(devices)]
    return {"spec": {"driver": driver, "nodeName": node, "devices": named}}


def found(
    document: dict[str, Any],
    slices: Iterable[dict[str, Any]] = (),
    *,
    resources: Collection[str] = DEFAULTS.competitors,
    own_resource: str = RESOURCE,
) -> str | None:
    return find_competitor(
        document,
        slices,
        node="n1",
        resources=resources,
        own_resource=own_resource,
        drivers=DEFAULTS.drivers,
    )


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/mig-7g.80gb.me",
        "nvidia.com/pgpu",
    ],
)
def test_every_resource_of_nvidias_plugins_is_a_competitor(name: str) -> None:
    message = found(offering(name))
    assert message is not None
    assert message.startswith(f"the node offers 4 {name}: ")
    assert "remove it from this node" in message


@pytest.mark.parametrize(
    "document",
    [
        {},
        offering("nvidia.com/gpu", "0"),
        offering("nvidia.com/gpu.count"),
        offering("nvidia.com/migration"),
        offering("rdma/mlx5"),
        offering(RESOURCE),
    ],
)
def test_other_resources_are_not_competitors(document: dict[str, Any]) -> None:
    assert found(document) is None


def test_the_agents_own_resource_never_competes_with_it() -> None:
    own = offering("nvidia.com/gpu")
    assert found(own, resources={"nvidia.com/*"}, own_resource="nvidia.com/gpu") is None
    assert found(own, resources={"nvidia.com/*"}) is not None


def test_devices_of_a_dra_driver_on_this_node_compete() -> None:
    slices = [slice_of("gpu.nvidia.com", 4), slice_of("gpu.nvidia.com", 4)]
    message = found({}, slices)
    assert message is not None
    assert message.startswith("ResourceSlices of DRA driver gpu.nvidia.com publish 8 devices")
    assert found({}, [slice_of("gpu.nvidia.com", 0)]) is None
    assert found({}, [slice_of("gpu.nvidia.com", 8, node="n2")]) is None
    assert found({}, [slice_of("compute-domain.nvidia.com", 1), {}]) is None
    both = found(offering("nvidia.com/gpu"), slices)
    assert both is not None
    assert "; ResourceSlices of" in both
