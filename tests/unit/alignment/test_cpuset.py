"""Which CPUs a container with GPUs gets, on a server of two NUMA nodes with 8 CPUs each."""

import pytest

from gputopo.alignment.cpuset import (
    CpusetDecision,
    CpusetReason,
    GpuContainerCpus,
    MachineCpus,
    decide_cpuset,
    repair_cpusets,
)
from gputopo.alignment.model import AlignmentError

NODE_0, NODE_1 = frozenset(range(8)), frozenset(range(8, 16))
MACHINE = MachineCpus({0: NODE_0, 1: NODE_1}, "none")


def on(*nodes: int, cpus: float = 1, cpuset: frozenset[int] | None = None) -> GpuContainerCpus:
    return GpuContainerCpus(frozenset(nodes), round(cpus * 1000), cpuset)


def decide(
    container: GpuContainerCpus, *others: GpuContainerCpus, machine: MachineCpus = MACHINE
) -> CpusetDecision:
    return decide_cpuset(container, others, machine)


def test_a_container_is_bound_to_the_cpus_of_its_gpus() -> None:
    assert decide(on(1)) == CpusetDecision(CpusetReason.BIND, NODE_1)


def test_several_containers_share_the_cpus_of_a_node() -> None:
    assert decide(on(0), on(0, cpuset=NODE_0)).cpus == NODE_0


def test_a_container_with_gpus_of_all_nodes_needs_no_limit() -> None:
    assert decide(on(0, 1)) == CpusetDecision(CpusetReason.NOT_NEEDED)


@pytest.mark.parametrize(("nodes", "cpus"), [((), NODE_0), ((2,), NODE_0), ((0, 2), NODE_0)])
def test_a_container_whose_nodes_are_unknown_is_left(
    nodes: tuple[int, ...], cpus: frozenset[int]
) -> None:
    assert decide(on(*nodes)) == CpusetDecision(CpusetReason.NUMA_UNKNOWN)
    assert decide(on(0, cpus=8), on(*nodes, cpus=8, cpuset=cpus)).cpus == NODE_0


@pytest.mark.parametrize("manager", ["static", None, "", "None"])
def test_with_another_cpu_manager_no_container_is_changed(manager: str | None) -> None:
    machine = MachineCpus(MACHINE.cpus_of, manager)
    assert decide(on(0), machine=machine) == CpusetDecision(CpusetReason.OTHER_MANAGER)


def test_a_limit_of_another_program_is_left_and_its_own_is_recognised() -> None:
    assert decide(on(0, cpuset=frozenset({3}))).reason is CpusetReason.OTHER_CPUSET
    assert decide(on(0, cpuset=NODE_0)) == CpusetDecision(CpusetReason.BOUND)


def test_a_node_without_cpus_binds_nothing() -> None:
    machine = MachineCpus({0: NODE_0, 2: frozenset()}, "none")
    assert decide(on(2, cpus=0), machine=machine).reason is CpusetReason.TOO_FEW_CPUS


def test_a_container_that_requests_more_cpus_than_its_node_has_is_not_bound() -> None:
    assert decide(on(0, cpus=8)).cpus == NODE_0
    assert decide(on(0, cpus=8.001)).reason is CpusetReason.TOO_FEW_CPUS


def test_bound_containers_of_a_node_never_request_more_than_it_has() -> None:
    six = on(0, cpus=6, cpuset=NODE_0)
    assert decide(on(0, cpus=2), six).cpus == NODE_0
    assert decide(on(0, cpus=3), six).reason is CpusetReason.TOO_FEW_CPUS
    assert decide(on(0, cpus=3), on(0, cpus=6)).cpus == NODE_0, "the other runs on all CPUs"
    assert decide(on(1, cpus=3), six).cpus == NODE_1


def test_containers_of_overlapping_nodes_are_counted_together() -> None:
    third = frozenset(range(16, 24))
    machine = MachineCpus({0: NODE_0, 1: NODE_1, 2: third}, "none")
    wide = on(0, 1, cpus=10, cpuset=NODE_0 | NODE_1)
    full = on(1, cpus=4, cpuset=NODE_1)
    assert decide(on(0, cpus=2), wide, full, machine=machine).cpus == NODE_0
    assert decide(on(0, cpus=3), wide, full, machine=machine).reason is CpusetReason.TOO_FEW_CPUS
    assert decide(on(2, cpus=3), wide, full, machine=machine).cpus == third


def test_containers_that_missed_their_limit_get_it_in_their_order() -> None:
    found = repair_cpusets(
        {
            "late": on(0, cpus=5),
            "later": on(0, cpus=5),
            "bound": on(0, cpus=2, cpuset=NODE_0),
            "near": on(1, cpus=8),
        },
        MACHINE,
    )
    assert {name: each.reason.value for name, each in found.items()} == {
        "late": "Bind",
        "later": "TooFewCPUs",
        "bound": "Bound",
        "near": "Bind",
    }


def test_a_bound_container_that_requests_more_than_is_left_is_released() -> None:
    found = repair_cpusets(
        {
            "first": on(0, cpus=5, cpuset=NODE_0),
            "raised": on(0, cpus=6, cpuset=NODE_0),
            "waiting": on(0, cpus=3),
        },
        MACHINE,
    )
    assert found["first"] == CpusetDecision(CpusetReason.BOUND)
    assert found["raised"] == CpusetDecision(CpusetReason.RELEASE, NODE_0 | NODE_1)
    assert found["waiting"].cpus == NODE_0, "it fits beside the first"


def test_with_another_cpu_manager_a_bound_container_is_not_released() -> None:
    machine = MachineCpus(MACHINE.cpus_of, "static")
    found = repair_cpusets({"bound": on(0, cpus=9, cpuset=NODE_0)}, machine)
    assert found == {"bound": CpusetDecision(CpusetReason.OTHER_MANAGER)}


def test_sixteen_numa_nodes_with_a_container_each_are_decided() -> None:
    machine = MachineCpus({node: frozenset({node}) for node in range(16)}, "none")
    found = repair_cpusets({str(node): on(node) for node in range(16)}, machine)
    assert {each.reason for each in found.values()} == {CpusetReason.BIND}


def test_too_many_numa_nodes_are_rejected() -> None:
    with pytest.raises(AlignmentError, match="17 NUMA nodes are over 16"):
        MachineCpus(dict.fromkeys(range(17), NODE_0), "none")
