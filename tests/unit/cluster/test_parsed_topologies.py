"""People and decisions get one reading of a GPUTopology."""

from typing import Any

import pytest

from gputopo.catalogue import named
from gputopo_cluster.topologies import (
    UnreadableTopology,
    parse_counters,
    parse_gpu_node,
    parse_published_node,
)
from support.builders.objects import topology_object


def published(**status: Any) -> dict[str, Any]:
    document = topology_object("n1", named("dgx1-v100", node="n1"), generation=2)
    document["status"] |= status
    return document


def test_measurements_in_an_unknown_format_hide_no_gpus() -> None:
    node = parse_published_node(published(samples="later", counters=[{"kind": "later"}]))
    assert (node.fault, node.name, node.behind) == (None, "n1", False)
    assert node.gpus == parse_gpu_node(published())
    assert list(node.index_of.values()) == list(range(8))
    assert node.index_of.keys() == node.observed.keys()


def test_invalid_object_has_one_reason_with_the_path_for_people() -> None:
    node = parse_published_node(published(gpus=[{"uuid": "GPU-1", "healthy": "perhaps"}]))
    assert isinstance(node.gpus, UnreadableTopology)
    assert node.gpus.reason.startswith("gpus[0].healthy: 'perhaps': ")
    assert node.fault == f"status.{node.gpus.reason}"
    assert node.topology is None


@pytest.mark.parametrize(("generation", "behind"), [(None, True), (1, True), (2, False)])
def test_status_of_an_earlier_spec_is_behind(generation: int | None, *, behind: bool) -> None:
    assert parse_published_node(published(observedGeneration=generation)).behind is behind


def test_counters_in_an_unknown_format_are_left_out() -> None:
    known = {"kind": "Load", "source": "NVML", "gpus": 8}
    assert [each.gpus for each in parse_counters(published(counters=[known]))] == [8]
    assert parse_counters(published(counters=[known, {"kind": "later"}])) == []
    assert parse_counters({"metadata": {"name": "n1"}}) == []
