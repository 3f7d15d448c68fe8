from dataclasses import replace

import pytest

from gputopo.catalogue import named
from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.kubelet.numa_rule import TopologyPolicy, numa_to_report, topology_policy

GPUS = {gpu.uuid: gpu for gpu in named("dgx1-v100").gpus}


def without_numa(gpus: dict[GpuUuid, Gpu], uuid: GpuUuid) -> dict[GpuUuid, Gpu]:
    return {**gpus, uuid: replace(gpus[uuid], numa_node=None)}


def test_with_the_policy_none_kubelet_gets_the_numa_node_of_every_gpu() -> None:
    nodes, condition = numa_to_report(GPUS, TopologyPolicy("none"))
    assert nodes == {uuid: gpu.numa_node for uuid, gpu in GPUS.items()}
    assert set(nodes.values()) == {0, 1}
    assert (condition.type, condition.holds, condition.reason) == (
        "NUMAPublished",
        True,
        "PolicyNone",
    )


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node", "None", "new"])
def test_with_another_policy_kubelet_gets_no_numa_node(policy: str) -> None:
    nodes, condition = numa_to_report(GPUS, TopologyPolicy(policy))
    assert (nodes, condition.holds, condition.reason) == ({}, False, "PolicyNotNone")
    assert f"'{policy}'" in condition.message


def test_with_an_unknown_policy_kubelet_gets_no_numa_node_and_the_condition_the_reason() -> None:
    nodes, condition = numa_to_report(GPUS, TopologyPolicy(None, "status 403"))
    assert (nodes, condition.holds, condition.reason) == ({}, False, "PolicyUnknown")
    assert condition.message == "kubelet's policy is unknown: status 403"


def test_if_one_numa_node_is_unknown_kubelet_gets_none_at_all() -> None:
    uuid = min(GPUS)
    nodes, condition = numa_to_report(without_numa(GPUS, uuid), TopologyPolicy("none"))
    assert (nodes, condition.holds, condition.reason) == ({}, False, "NUMANodeUnknown")
    assert condition.message == f"NVML reports no NUMA node for {uuid}"


@pytest.mark.parametrize(
    ("config", "policy"),
    [
        ({"topologyManagerPolicy": "none"}, TopologyPolicy("none")),
        ({"topologyManagerPolicy": "restricted"}, TopologyPolicy("restricted")),
    ],
)
def test_the_policy_is_read_from_the_configuration(
    config: dict[str, object], policy: TopologyPolicy
) -> None:
    assert topology_policy(config) == policy


@pytest.mark.parametrize("value", [None, "", 0, ["none"], {"none": "none"}])
def test_a_configuration_without_a_policy_has_an_unknown_policy(value: object) -> None:
    policy = topology_policy({"topologyManagerPolicy": value})
    assert policy.name is None
    assert policy.unknown.startswith("topologyManagerPolicy: ")
    assert topology_policy({}).name is None


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_if_the_agent_may_kubelet_gets_numa_nodes_also_with_another_policy(policy: str) -> None:
    nodes, condition = numa_to_report(GPUS, TopologyPolicy(policy), any_policy=True)
    assert nodes == {uuid: gpu.numa_node for uuid, gpu in GPUS.items()}
    assert (condition.holds, condition.reason) == (True, "PolicyPredicted")
    assert f"'{policy}'" in condition.message


def test_with_the_policy_none_nothing_needs_to_be_predicted() -> None:
    policy = TopologyPolicy("none", unpredictable="memoryManagerPolicy: 'Static'")
    nodes, condition = numa_to_report(GPUS, policy, any_policy=True)
    assert (len(nodes), condition.reason) == (len(GPUS), "PolicyNone")


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"topologyManagerPolicy": "newest"}, "topologyManagerPolicy: 'newest'"),
        ({"topologyManagerScope": "node"}, "topologyManagerScope: 'node'"),
        ({"cpuManagerPolicy": "dynamic"}, "cpuManagerPolicy: 'dynamic'"),
        ({"memoryManagerPolicy": "Static"}, "memoryManagerPolicy: 'Static'"),
        (
            {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}},
            "topologyManagerPolicyOptions: 'prefer-closest-numa-nodes'",
        ),
        (
            {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
            "cpuManagerPolicyOptions: 'full-pcpus-only'",
        ),
    ],
)
def test_with_a_setting_that_is_not_predicted_kubelet_gets_no_numa_node(
    setting: dict[str, object], named: str
) -> None:
    policy = topology_policy({"topologyManagerPolicy": "restricted", **setting})
    nodes, condition = numa_to_report(GPUS, policy, any_policy=True)
    assert (nodes, condition.holds, condition.reason) == ({}, False, "PolicyNotPredicted")
    assert condition.message.endswith(named)


@pytest.mark.parametrize(("nodes", "reason"), [(16, "Predicted"), (17, "NotPredicted")])
def test_on_a_host_with_many_numa_nodes_kubelet_gets_none(nodes: int, reason: str) -> None:
    found, condition = numa_to_report(
        GPUS, TopologyPolicy("restricted"), any_policy=True, host_nodes=nodes
    )
    assert (bool(found), condition.reason) == (nodes == 16, f"Policy{reason}")
    if nodes == 17:
        assert condition.message.endswith("with 17 NUMA nodes, at most 16")
    assert numa_to_report(GPUS, TopologyPolicy("none"), host_nodes=nodes)[1].holds


def test_known_settings_are_predicted() -> None:
    config = {
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "pod",
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "None",
        "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "12"},
        "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true", "full-pcpus-only": "false"},
    }
    expected = TopologyPolicy("restricted", scope="pod", exclusive_cpus=True)
    assert topology_policy(config) == expected
    assert topology_policy({**config, "cpuManagerPolicyOptions": ["odd"]}) == expected
