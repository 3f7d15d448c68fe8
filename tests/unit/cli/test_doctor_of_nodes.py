"""``gputopo doctor`` finds problems of agents, other device plugins and kubelets."""

import json

import pytest

from support.api.static import Document, StaticApi
from support.cli import healthy_cluster
from support.cli.broken_cluster import Break, agent, change, conditions, findings, no_agent, remove
from support.cli.command_line import Command
from support.cli.healthy_cluster import DAEMON_SETS, NODES, PODS, TOPOLOGIES, configz


def _waiting_agent(state: Document) -> Break:
    def break_(api: StaticApi) -> None:
        agent(api, "n2")["status"] = {
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{"name": "deviceplugin", "state": state}],
        }

    return break_


def _no_topology(api: StaticApi) -> None:
    del api.lists[TOPOLOGIES][1]
    api.lists[PODS] = [pod for pod in api.lists[PODS] if pod["metadata"]["name"] != "serve"]


def _unlabelled(api: StaticApi) -> None:
    api.lists[NODES][1]["metadata"]["labels"] = None
    _no_topology(api)
    no_agent(api)


def _unserved_node(api: StaticApi) -> None:
    _no_topology(api)
    no_agent(api)
    for part in ("capacity", "allocatable"):
        del api.lists[NODES][1]["status"][part]["gputopo.io/gpu"]


NO_AGENT = "no agent runs on this node, so its GPUTopology is missing or out of date"
N2, T2 = "Node n2", "GPUTopology n2"
AGENT_N2 = "Pod gputopo-system/gputopo-deviceplugin-n2"


@pytest.mark.parametrize(
    ("break_", "severity", "where", "problem"),
    [
        (
            remove(NODES, 1),
            "warning",
            T2,
            "there is no Node of this name, so no agent updates this object",
        ),
        (
            change(NODES, 1, status={}),
            "error",
            N2,
            "is not ready, so the state of its GPUs is unknown",
        ),
        (no_agent, "error", N2, NO_AGENT),
        (_unserved_node, "error", N2, NO_AGENT),
        (_unlabelled, "error", N2, NO_AGENT),
        (
            _waiting_agent({"waiting": {"reason": "CrashLoopBackOff"}}),
            "error",
            AGENT_N2,
            "the agent of n2 is not ready: CrashLoopBackOff",
        ),
        (
            _waiting_agent({"waiting": {}}),
            "error",
            AGENT_N2,
            "the agent of n2 is not ready: waiting",
        ),
        (_waiting_agent({"running": {}}), "error", AGENT_N2, "the agent of n2 is not ready"),
        (
            _no_topology,
            "error",
            T2,
            "is missing, so the scheduler sees no GPU of this node",
        ),
        (
            change(TOPOLOGIES, 0, "spec", "gpus", "0", index=99),
            "error",
            "GPUTopology n1",
            "is invalid: spec.gpus[0].index: 99: Input should be less than or equal to 63",
        ),
        (
            change(TOPOLOGIES, 1, "metadata", generation=4),
            "error",
            T2,
            "its agent has not written the status since the spec was changed",
        ),
        (
            change(TOPOLOGIES, 1, "status", conditions=[]),
            "error",
            T2,
            "its agent has not written the status since the spec was changed",
        ),
        (
            conditions(1, "Ready", "libnvidia-ml.so.1 is gone", "NVMLUnavailable"),
            "error",
            T2,
            "is not ready, NVMLUnavailable: libnvidia-ml.so.1 is gone",
        ),
        (
            change(NODES, 1, "status", "capacity", **{"gputopo.io/gpu": "7"}),
            "error",
            N2,
            "status.capacity of gputopo.io/gpu is 7, but the agent reports 8 GPUs",
        ),
        (
            change(TOPOLOGIES, 1, "status", "gpus", "0", healthy=False),
            "error",
            N2,
            "status.allocatable of gputopo.io/gpu is 8, but the agent reports 7 healthy GPUs",
        ),
        (
            conditions(1, "GPUsHealthy", "GPU-5: XID 79"),
            "warning",
            T2,
            "GPUs are unhealthy: GPU-5: XID 79",
        ),
    ],
)
def test_agents_that_are_missing_or_differ_from_kubelet_are_reported(
    api: StaticApi, gputopo: Command, break_: Break, severity: str, where: str, problem: str
) -> None:
    break_(api)
    shown = [found for found in findings(gputopo) if found[0] == "agents"]
    assert shown == [("agents", severity, where, problem)]


def test_agent_that_is_being_replaced_is_not_reported(api: StaticApi, gputopo: Command) -> None:
    old = json.loads(json.dumps(agent(api, "n2")))
    old["status"] = {}
    api.lists[PODS].append(old)
    assert findings(gputopo) == []


def test_node_that_another_plugin_serves_needs_no_agent(api: StaticApi, gputopo: Command) -> None:
    _unserved_node(api)
    for part in ("capacity", "allocatable"):
        api.lists[NODES][1]["status"][part]["nvidia.com/gpu"] = "8"
    assert findings(gputopo) == []


def test_node_without_gpus_needs_no_agent(api: StaticApi, gputopo: Command) -> None:
    api.lists[NODES].append({"metadata": {"name": "n3"}, "status": {"allocatable": {"cpu": "4"}}})
    assert findings(gputopo) == []


def _plugin(name: str, image: str, path: str, node: str) -> Break:
    def break_(api: StaticApi) -> None:
        metadata = {"namespace": "kube-system", "name": name, "uid": f"uid-{name}"}
        template = {
            "containers": [{"name": "main", "image": image}],
            "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": path}}],
        }
        api.lists[DAEMON_SETS].append(
            {"metadata": metadata, "spec": {"template": {"spec": template}}}
        )
        pod = healthy_cluster.pod(f"{name}-1", node, [], namespace="kube-system")
        pod["metadata"]["ownerReferences"] = [{"uid": "other"}, {"uid": metadata["uid"]}]
        api.lists[PODS].append(pod)

    return break_


SOCKETS = "/var/lib/kubelet/device-plugins/"


def _with_init_container(break_: Break, image: str) -> Break:
    def break_more(api: StaticApi) -> None:
        break_(api)
        pod = api.lists[DAEMON_SETS][-1]["spec"]["template"]["spec"]
        pod["initContainers"] = [{"name": "first", "image": image}]

    return break_more


@pytest.mark.parametrize(
    ("break_", "severity", "where", "problem"),
    [
        (
            change(NODES, 0, "status", "allocatable", **{"nvidia.com/gpu": "8"}),
            "error",
            "Node n1",
            "offers 8 nvidia.com/gpu beside gputopo.io/gpu: two plugins serve the same GPUs",
        ),
        (
            change(NODES, 0, "status", "allocatable", **{"nvidia.com/mig-1g.5gb": "7"}),
            "error",
            "Node n1",
            "offers 7 nvidia.com/mig-1g.5gb beside gputopo.io/gpu: two plugins serve the same GPUs",
        ),
        (
            change(NODES, 0, "status", "allocatable", **{"nvidia.com/other": "7"}),
            "warning",
            "Node n1",
            "offers 7 nvidia.com/other beside gputopo.io/gpu",
        ),
        (
            change(NODES, 0, "status", "allocatable", **{"volcano.sh/vGPU-number": "80"}),
            "warning",
            "Node n1",
            "offers 80 volcano.sh/vGPU-number beside gputopo.io/gpu",
        ),
        (
            _plugin("nvdp", "nvcr.io/nvidia/k8s-device-plugin:v0.17", SOCKETS, "n2"),
            "warning",
            "DaemonSet kube-system/nvdp",
            "another device plugin for GPUs runs on nodes of our agent: n2",
        ),
        (
            _plugin("gpushare", "registry.example/plugin", "/var/lib/kubelet/device-plugins", "n1"),
            "warning",
            "DaemonSet kube-system/gpushare",
            "another device plugin for GPUs runs on nodes of our agent: n1",
        ),
    ],
)
def test_other_plugins_on_nodes_of_the_agent_are_reported(
    api: StaticApi, gputopo: Command, break_: Break, severity: str, where: str, problem: str
) -> None:
    break_(api)
    assert findings(gputopo) == [("competitors", severity, where, problem)]


@pytest.mark.parametrize(
    "break_",
    [
        change(NODES, 0, "status", "allocatable", **{"rdma/hca": "8"}),
        _with_init_container(_plugin("rdma", "example/rdma", SOCKETS, "n1"), "nvidia/validator"),
        _plugin("nvdp", "nvcr.io/nvidia/k8s-device-plugin:v0.17", SOCKETS, "n9"),
        _plugin("rdma", "registry.example/rdma", SOCKETS, "n1"),
        _plugin("nvidia-exporter", "nvcr.io/dcgm", "/run", "n1"),
    ],
)
def test_plugins_that_serve_something_else_or_elsewhere_are_fine(
    api: StaticApi, gputopo: Command, break_: Break
) -> None:
    break_(api)
    assert findings(gputopo) == []


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"cpuManagerPolicy": "static", "memoryManagerPolicy": "Static"}, "CPUs and memory"),
        ({"cpuManagerPolicy": "static"}, "CPUs"),
        ({"memoryManagerPolicy": "Static"}, "memory"),
        ({}, "other devices"),
    ],
)
def test_kubelets_that_reject_pods_for_their_cpus_or_memory_are_reported(
    api: StaticApi, gputopo: Command, config: Document, what: str
) -> None:
    for node in ("n1", "n2"):
        api.objects[configz(node)]["kubeletconfig"] = {
            "topologyManagerPolicy": "single-numa-node",
            **config,
        }
    problem = (
        f"kubelet's topologyManagerPolicy is single-numa-node: after the GPUs of a pod were"
        f" chosen, kubelet may reject it because of its {what}, but never because of its GPUs"
    )
    assert findings(gputopo) == [
        ("kubelets", "warning", where, problem) for where in ("Node n1", "Node n2")
    ]


@pytest.mark.parametrize("policy", ["none", "best-effort", None])
def test_kubelets_that_only_try_to_align_are_fine(
    api: StaticApi, gputopo: Command, policy: str | None
) -> None:
    api.objects[configz("n1")]["kubeletconfig"] = {
        "topologyManagerPolicy": policy,
        "cpuManagerPolicy": "static",
    }
    assert findings(gputopo) == []


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (
            503,
            b"error trying to reach service",
            "API server: 503: Service Unavailable: error trying to reach service",
        ),
        (
            200,
            b"<html>",
            f"API server: URL: GET {configz('n2')}: the response is not a JSON object",
        ),
        (200, b"{}", "the response has no kubeletconfig"),
        (200, b'{"kubeletconfig": []}', "the response has no kubeletconfig"),
    ],
)
def test_kubelet_that_does_not_respond_is_a_warning(
    api: StaticApi, gputopo: Command, status: int, body: bytes, why: str
) -> None:
    api.rejections[configz("n2")] = (status, body)
    problem = f"kubelet does not return its configuration: {why.replace('URL', api.url)}"
    assert findings(gputopo) == [("kubelets", "warning", "Node n2", problem)]


def test_kubelets_are_skipped_after_several_do_not_respond(
    api: StaticApi, gputopo: Command
) -> None:
    for path in (NODES, TOPOLOGIES):
        known = api.lists[path][1]
        api.lists[path] += [
            {**known, "metadata": {"name": f"n{i}", "generation": 3}} for i in range(3, 7)
        ]
    del api.objects[configz("n2")]
    shown = [found for found in findings(gputopo) if found[0] == "kubelets"]
    assert [where for _, _, where, _ in shown] == [f"Node n{i}" for i in range(2, 7)]
    skipped = "skipped, because 3 other kubelets do not respond"
    assert [problem.endswith(skipped) for *_, problem in shown] == [False] * 3 + [True] * 2


def test_kubelet_of_a_node_that_is_not_ready_gets_no_request(
    api: StaticApi, gputopo: Command
) -> None:
    change(NODES, 1, status={})(api)
    del api.objects[configz("n2")]
    assert [found for found in findings(gputopo) if found[0] == "kubelets"] == []


def publish_numa(
    api: StaticApi, *, status: str, reason: str, message: str = "", kind: str = "NUMAPublished"
) -> None:
    """Write the condition of node n1's agent."""
    condition = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    topology = api.lists[TOPOLOGIES][0]
    known = topology["status"].get("conditions", [])
    api.lists[TOPOLOGIES][0] = {
        **topology,
        "status": {**topology["status"], "conditions": [*known, condition]},
    }


def test_numa_nodes_reported_to_a_kubelet_that_aligns_are_an_error(
    api: StaticApi, gputopo: Command
) -> None:
    publish_numa(api, status="True", reason="PolicyNone")
    assert findings(gputopo) == []
    api.objects[configz("n1")]["kubeletconfig"] = {"topologyManagerPolicy": "best-effort"}
    problem = (
        "the agent reports the NUMA nodes of the GPUs to a kubelet with topologyManagerPolicy"
        " best-effort: kubelet chooses GPUs by NUMA node, and the agent rejects pods with other"
        " GPUs than chosen"
    )
    assert findings(gputopo) == [("kubelets", "error", "Node n1", problem)]


def test_a_policy_that_the_extender_follows_is_no_finding(api: StaticApi, gputopo: Command) -> None:
    publish_numa(api, status="True", reason="PolicyPredicted")
    api.objects[configz("n1")]["kubeletconfig"] = {"topologyManagerPolicy": "restricted"}
    assert findings(gputopo) == []


@pytest.mark.parametrize("reason", ["PolicyUnknown", "PolicyNotPredicted"])
def test_an_agent_that_cannot_read_or_predict_the_policy_is_a_warning(
    api: StaticApi, gputopo: Command, reason: str
) -> None:
    publish_numa(api, status="False", reason=reason, message="status 403")
    problem = "the NUMA nodes of the GPUs are not reported to kubelet: status 403"
    assert findings(gputopo) == [("kubelets", "warning", "GPUTopology n1", problem)]


@pytest.mark.parametrize("reason", ["PolicyNotNone", "NUMANodeUnknown"])
def test_numa_nodes_that_are_withheld_for_a_good_reason_are_fine(
    api: StaticApi, gputopo: Command, reason: str
) -> None:
    publish_numa(api, status="False", reason=reason)
    assert findings(gputopo) == []


@pytest.mark.parametrize("reason", ["NRIUnavailable", "CPUManagerUnknown"])
def test_an_agent_that_cannot_limit_containers_to_cpus_is_a_warning(
    api: StaticApi, gputopo: Command, reason: str
) -> None:
    publish_numa(api, status="False", reason=reason, message="no such file", kind="CPUsBound")
    problem = "containers are not limited to the CPUs near their GPUs: no such file"
    assert findings(gputopo) == [("kubelets", "warning", "GPUTopology n1", problem)]


@pytest.mark.parametrize("reason", ["Connected", "CPUManagerNotNone", "OneNUMANode", "CPUsUnknown"])
def test_an_agent_with_no_cpus_to_set_is_fine(
    api: StaticApi, gputopo: Command, reason: str
) -> None:
    publish_numa(api, status="False", reason=reason, kind="CPUsBound")
    assert findings(gputopo) == []


def test_numa_nodes_reported_to_an_unknown_kubelet_are_no_further_finding(
    api: StaticApi, gputopo: Command
) -> None:
    publish_numa(api, status="True", reason="PolicyNone")
    del api.objects[configz("n1")]
    assert [severity for _, severity, _, _ in findings(gputopo)] == ["warning"]
