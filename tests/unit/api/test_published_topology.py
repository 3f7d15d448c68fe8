"""Conversion between a node topology and the GPUTopology object."""

from typing import Any

import pytest

from gputopo.api.topology import from_spec, to_spec
from gputopo.api.v1alpha1 import GPUTopologySpec
from gputopo.catalogue import named
from gputopo.topology.model import TopologyError
from support.builders.topologies import node


def spec_of(**changes: Any) -> GPUTopologySpec:
    return GPUTopologySpec.model_validate(to_spec(node(0, 1)).to_json() | changes)


def test_a_link_names_its_gpus_by_uuid_and_its_bandwidth_in_mb_per_s() -> None:
    assert to_spec(node(0, 1)).to_json()["links"] == [
        {
            "a": "GPU-n-0",
            "b": "GPU-n-1",
            "kind": "PCIe",
            "version": 3,
            "count": 16,
            "ancestor": "SYS",
            "bandwidthMBps": 12000,
        }
    ]


def test_a_gpu_is_written_with_its_memory_as_a_quantity() -> None:
    assert to_spec(node(0)).to_json()["gpus"] == [
        {
            "uuid": "GPU-n-0",
            "index": 0,
            "minor": 0,
            "pciBusID": "00000000:00:00.0",
            "model": "Tesla V100-SXM2-32GB",
            "memory": "32Gi",
            "numaNode": 0,
        }
    ]


def test_a_link_may_name_its_gpus_in_either_order() -> None:
    links = [to_spec(node(0, 1)).to_json()["links"][0] | {"a": "GPU-n-1", "b": "GPU-n-0"}]
    assert from_spec(spec_of(links=links)) == node(0, 1)


def test_a_link_to_an_unknown_gpu_is_rejected() -> None:
    links = [to_spec(node(0, 1)).to_json()["links"][0] | {"b": "GPU-elsewhere"}]
    with pytest.raises(TopologyError, match=r"links\[\]: GPU-elsewhere is not one of gpus"):
        from_spec(spec_of(links=links))


def test_a_spec_without_its_links_is_rejected() -> None:
    with pytest.raises(TopologyError, match="is missing"):
        from_spec(spec_of(links=[]))


def test_a_node_without_gpus_is_published_empty() -> None:
    assert from_spec(GPUTopologySpec()).gpus == ()


def test_unknown_keys_are_ignored() -> None:
    assert from_spec(spec_of(later="field")) == node(0, 1)


@pytest.mark.parametrize("name", ["dgx1-v100", "summit", "dgx-a100"])
def test_servers_are_equal_after_json(name: str) -> None:
    topology = named(name)
    text = to_spec(topology).model_dump_json(by_alias=True)
    assert from_spec(GPUTopologySpec.model_validate_json(text)) == topology
