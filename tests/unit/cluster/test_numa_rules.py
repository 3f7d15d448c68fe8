"""The rules of a node come from the status of its GPUTopology and from the pods on it."""

from dataclasses import replace
from typing import Any

from gputopo.catalogue import named
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo_cluster.numa_rules import NumaCpuCounts, NumaRules
from gputopo_cluster.topologies import GpuNode, parse_gpu_node
from gputopo_cluster.usage import node_usage
from support.builders.objects import topology_object
from support.builders.requests import pod_view
from support.extender.ledgers import bound, claim, ledger_with, usage

TOPOLOGY = named("dgx1-v100", node="n1")
CPUS = [{"numaNode": 0, "total": 2, "allocatable": 1, "free": 1}]


def node(
    alignment: dict[str, Any] | None, topology: NodeTopology = TOPOLOGY, **more: Any
) -> GpuNode:
    document = topology_object("n1", topology, **more)
    if alignment is not None:
        document["status"]["alignment"] = {"policy": "restricted", "scope": "pod", **alignment}
    parsed = parse_gpu_node(document)
    assert isinstance(parsed, GpuNode)
    return parsed


def rules(alignment: dict[str, Any]) -> NumaRules:
    found = node(alignment).numa
    assert found is not None
    return found


def test_rules_have_policy_scope_machine_gpus_and_cpus() -> None:
    found = rules({"cpus": CPUS})
    assert (found.manager.policy, found.manager.scope, found.manager.machine) == (
        "restricted",
        "pod",
        0b11,
    )
    assert found.cpus == (NumaCpuCounts(0, 2, 1, 1),)
    assert found.pool(GpuMask(0b10001)).amounts.free == {0: 1, 1: 1}
    assert rules({}).cpus is None


def test_without_a_report_or_with_a_gpu_of_unknown_numa_node_nothing_is_limited() -> None:
    assert node(None).numa is None
    unknown = replace(TOPOLOGY.gpus[0], numa_node=None)
    half = NodeTopology((unknown, *TOPOLOGY.gpus[1:]), TOPOLOGY.links, TOPOLOGY.numa_nodes)
    assert node({}, half).numa is None


def stable(known: GpuNode, *names: str) -> bool:
    pods = [pod_view(bound(name, index)) for index, name in enumerate(names)]
    found = node_usage(known, pods, []).numa
    assert found is not None
    return found.stable


def test_a_node_is_stable_if_kubelet_has_admitted_exactly_its_pods() -> None:
    assert stable(node({}))
    assert stable(node({"admitted": ["uid-a", "uid-b"]}), "a", "b")
    assert not stable(node({"admitted": ["uid-a"]}), "a", "b")
    assert not stable(node({"admitted": ["uid-a", "uid-ended"]}), "a")


def test_a_binding_in_flight_makes_a_node_unsettled() -> None:
    ledger = ledger_with()
    ledger.put_topology(node({}))
    assert usage(ledger).numa == rules({})
    ledger.replace_claims([claim("other", 2)])
    found = usage(ledger).numa
    assert found is not None
    assert not found.stable
    assert usage(ledger).state.key != replace(usage(ledger).state, numa=rules({})).key
