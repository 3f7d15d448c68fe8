"""Binding containers to CPUs takes no CPU away that a container has requested."""

from dataclasses import replace

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from gputopo.alignment.cpuset import (
    CpusetReason,
    GpuContainerCpus,
    MachineCpus,
    is_bound,
    repair_cpusets,
)
from support.property_settings import fuzzed, tried

MILLI = st.integers(0, 8000)


@st.composite
def machines(draw: st.DrawFn) -> MachineCpus:
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    cpus = {
        node: frozenset(range(start, start + size))
        for node, (start, size) in enumerate(zip(starts, sizes, strict=True))
    }
    return MachineCpus(cpus, "none")


@st.composite
def nodes_with_containers(draw: st.DrawFn) -> tuple[MachineCpus, dict[str, GpuContainerCpus]]:
    machine = draw(machines())
    near = st.frozensets(st.sampled_from([*machine.cpus_of]), min_size=1, max_size=3)
    unknown = st.frozensets(st.sampled_from([0, 9]), max_size=2)
    cpuset = st.frozensets(st.integers(0, 12), max_size=3)
    usual = st.builds(GpuContainerCpus, near, MILLI)
    other = st.builds(GpuContainerCpus, unknown, MILLI, cpuset | st.none())
    containers = draw(st.lists(st.one_of(usual, usual, usual, other), max_size=6))
    return machine, {f"c{number}": each for number, each in enumerate(containers)}


def milli_cpu_of_all(machine: MachineCpus, containers: list[GpuContainerCpus]) -> int:
    """Return the CPUs that these containers can have at the same time: a maximum flow."""
    graph: nx.DiGraph[object] = nx.DiGraph()
    graph.add_nodes_from(["source", "sink"])
    for node, cpus in machine.cpus_of.items():
        graph.add_edge(("numa", node), "sink", capacity=1000 * len(cpus))
    for number, container in enumerate(containers):
        graph.add_edge("source", ("container", number), capacity=container.milli_cpu)
        for node in container.numa_nodes:
            graph.add_edge(("container", number), ("numa", node))
    return int(nx.maximum_flow_value(graph, "source", "sink"))


@fuzzed
@given(nodes_with_containers())
def test_all_bound_containers_can_have_their_cpus_at_the_same_time(
    case: tuple[MachineCpus, dict[str, GpuContainerCpus]],
) -> None:
    machine, containers = case
    before = {name: each for name, each in containers.items() if not is_bound(each, machine)}
    decisions = repair_cpusets(before, machine)
    after = {
        name: replace(each, cpuset=cpus) if (cpus := decisions[name].cpus) is not None else each
        for name, each in before.items()
    }
    for name, each in after.items():
        if each != before[name]:
            assert before[name].cpuset is None
            assert each.cpuset == machine.cpus(each.numa_nodes) != frozenset()
    bound = [each for each in after.values() if is_bound(each, machine)]
    assert milli_cpu_of_all(machine, bound) == sum(each.milli_cpu for each in bound)
    again = repair_cpusets(after, machine)
    assert all(each.cpus is None for each in again.values())
    for name, decision in again.items():
        tried(f"cpuset {decision.reason}")
        if decisions[name].reason is CpusetReason.TOO_FEW_CPUS:
            others = [each for each in bound if each is not after[name]]
            one_more = [*others, after[name]]
            full = milli_cpu_of_all(machine, one_more) < sum(each.milli_cpu for each in one_more)
            assert full or not machine.cpus(after[name].numa_nodes)


@fuzzed
@given(nodes_with_containers(), st.data())
def test_after_any_change_of_requests_bound_containers_fit_again(
    case: tuple[MachineCpus, dict[str, GpuContainerCpus]], data: st.DataObject
) -> None:
    machine, containers = case
    everything = machine.cpus(machine.cpus_of)

    def repaired(before: dict[str, GpuContainerCpus]) -> dict[str, GpuContainerCpus]:
        decisions = repair_cpusets(before, machine)
        assert decisions.keys() == before.keys()
        after = {}
        for name, each in before.items():
            tried(f"cpuset after a change {decisions[name].reason}")
            cpus = decisions[name].cpus
            released = decisions[name].reason is CpusetReason.RELEASE
            assert not released or (is_bound(each, machine) and cpus == everything)
            cpuset = None if released else each.cpuset if cpus is None else cpus
            after[name] = replace(each, cpuset=cpuset)
        return after

    known = repaired(containers)
    changed = {name: replace(each, milli_cpu=data.draw(MILLI)) for name, each in known.items()}
    after = repaired(changed)
    unlimited = [each for each in after.values() if each.cpuset == everything]
    bound = [each for each in after.values() if is_bound(each, machine) and each not in unlimited]
    assert milli_cpu_of_all(machine, bound) == sum(each.milli_cpu for each in bound)
    assert repaired(after) == after
