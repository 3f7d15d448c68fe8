"""When the agent may set the CPUs of containers."""

from dataclasses import replace

import pytest

from gputopo.catalogue import named
from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.nri.rule import (
    NOT_READ,
    CpuManager,
    connected,
    cpu_manager,
    disconnected,
    obstacle,
)

GPUS = {gpu.uuid: gpu for gpu in named("dgx1-v100").gpus}
CPUS = {0: frozenset(range(4)), 1: frozenset(range(4, 8))}
NONE = CpuManager("none")


def test_with_two_numa_nodes_and_the_policy_none_there_is_no_obstacle() -> None:
    assert obstacle(NONE, GPUS, CPUS) is None
    some_unknown = {**GPUS, next(iter(GPUS)): without_node(next(iter(GPUS.values())))}
    assert obstacle(NONE, some_unknown, CPUS) is None


def without_node(gpu: Gpu) -> Gpu:
    return replace(gpu, numa_node=None)


@pytest.mark.parametrize(
    ("manager", "gpus", "cpus", "reason"),
    [
        (NOT_READ, GPUS, CPUS, "CPUManagerUnknown"),
        (CpuManager("static"), GPUS, CPUS, "CPUManagerNotNone"),
        (NONE, GPUS, {0: CPUS[0]}, "OneNUMANode"),
        (NONE, GPUS, {}, "CPUsUnknown"),
        (NONE, GPUS, dict.fromkeys(range(17), CPUS[0]), "CPUsUnknown"),
        (NONE, GPUS, {2: CPUS[0], 3: CPUS[1]}, "CPUsUnknown"),
        (NONE, {}, CPUS, "CPUsUnknown"),
        (NONE, {k: without_node(v) for k, v in GPUS.items()}, CPUS, "CPUsUnknown"),
    ],
)
def test_the_condition_names_the_obstacle(
    manager: CpuManager, gpus: dict[GpuUuid, Gpu], cpus: dict[int, frozenset[int]], reason: str
) -> None:
    found = obstacle(manager, gpus, cpus)
    assert found is not None
    assert (found.type, found.holds, found.reason) == ("CPUsBound", False, reason)


def test_the_policy_comes_from_the_configuration_of_kubelet() -> None:
    assert cpu_manager({"cpuManagerPolicy": "static"}) == CpuManager("static")
    for value in ({}, {"cpuManagerPolicy": ""}, {"cpuManagerPolicy": 3}):
        found = cpu_manager(value)
        assert found.policy is None
        assert "is not a policy" in found.unknown


def test_while_connected_the_condition_names_the_containers_without_a_limit() -> None:
    assert connected({}).holds
    text = connected({"ns/b/c": "too few", "ns/a/c": "other"}).message
    assert text.endswith("without a limit: ns/a/c: other; ns/b/c: too few")
    many = connected({f"ns/{number}/c": "x" for number in range(11)}).message
    assert many.endswith("ns/6/c: x; 3 more")


def test_without_a_connection_the_condition_has_the_reason() -> None:
    found = disconnected("no such file")
    assert (found.holds, found.reason) == (False, "NRIUnavailable")
    assert found.message.endswith("no such file")
