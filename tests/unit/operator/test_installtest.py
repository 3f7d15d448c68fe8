"""What ``helm test`` concludes from the pods, topologies and responses of an installation."""

import json

import pytest

from gputopo_operator.installtest.components import judge, probes
from gputopo_operator.installtest.dryruns import dry_runs, judge_dry_run
from gputopo_operator.installtest.topologies import judge_topologies
from gputopo_operator.installtest.verdict import InstallCheck, InstallVerdict, has_failed, show
from support.operator.installation import Document, chart_pod, node_topology

READY = [
    chart_pod("operator"),
    chart_pod("scheduler", "a", ip="10.0.0.2"),
    chart_pod("scheduler", "b", ip="10.0.0.3"),
    chart_pod("deviceplugin", ip="fd00::1"),
]


def checks_of(
    pods: list[Document], failures: dict[str, str] | None = None, scheduler_pods: int = 2
) -> dict[str, InstallCheck]:
    found = judge(probes(pods), failures or {}, scheduler_pods, "gpus")
    return {check.name: check for check in found}


def test_pods_of_all_components_are_called_at_their_own_ports() -> None:
    assert [probe.url for probe in probes(READY)] == [
        "http://10.0.0.1:8891/healthz",
        "http://10.0.0.2:8889/readyz",
        "http://10.0.0.3:8889/readyz",
        "http://[fd00::1]:8890/readyz",
    ]
    checks = checks_of(READY)
    assert {check.verdict for check in checks.values()} == {InstallVerdict.PASSED}
    assert checks["scheduler"].details == "2 pods are ready: a, b"
    assert checks["operator"].details == "1 pod is ready: gputopo-operator-0"


def test_pods_that_end_and_pods_of_other_components_are_not_called() -> None:
    leaving = chart_pod("scheduler", "old")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    unlabelled = chart_pod("scheduler", "alien")
    del unlabelled["metadata"]["labels"]
    others = [leaving, unlabelled, chart_pod("test"), chart_pod("web")]
    assert probes(READY + others) == probes(READY)


def test_pod_that_does_not_respond_fails_its_component_and_names_the_next_command() -> None:
    checks = checks_of(READY, {"http://10.0.0.3:8889/readyz": "status 503"})
    assert checks["scheduler"] == InstallCheck(
        "scheduler",
        InstallVerdict.FAILED,
        "1 of 2 pods are not ready: b: status 503; see"
        " kubectl -n gpus describe pods -l app.kubernetes.io/component=scheduler",
    )
    assert checks["operator"].verdict is InstallVerdict.PASSED


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"conditions": None, "phase": "Pending"}, "x: Pending;"),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Tainted"}],
            },
            "x: Pending: Tainted;",
        ),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, "x: Running: Ready;"),
        ({"podIP": ""}, "x: '' is not an IP address;"),
        ({"podIP": "127.0.0.1"}, "x: 127.0.0.1 is not the address of a pod;"),
    ],
)
def test_pod_without_readiness_or_address_fails(status: Document, problem: str) -> None:
    operator = checks_of([chart_pod("operator", "x", **status)])["operator"]
    assert operator.verdict is InstallVerdict.FAILED
    assert problem in operator.details


def test_pod_without_a_status_fails() -> None:
    pod = chart_pod("operator", "x")
    del pod["status"]
    assert "x: Unknown;" in checks_of([pod])["operator"].details


def test_missing_pods_fail_except_those_that_the_values_do_not_request() -> None:
    assert checks_of(READY, scheduler_pods=3)["scheduler"].details.startswith(
        "2 pods found, 3 expected; see"
    )
    nothing = checks_of([], scheduler_pods=0)
    assert {name: check.verdict for name, check in nothing.items()} == {
        "operator": InstallVerdict.FAILED,
        "scheduler": InstallVerdict.SKIPPED,
        "deviceplugin": InstallVerdict.FAILED,
    }


@pytest.mark.parametrize("ready", [True, False])
def test_only_three_of_many_pods_are_named(*, ready: bool) -> None:
    agents = [chart_pod("deviceplugin", f"a{number}", ready=ready) for number in range(1000)]
    details = checks_of(agents)["deviceplugin"].details
    assert "997 more" in details
    assert "a3" not in details


def test_topologies_are_counted_with_their_healthy_gpus() -> None:
    check = judge_topologies([node_topology("n1", (True, False)), node_topology("n2", (True,))])
    assert check == InstallCheck(
        "topologies", InstallVerdict.PASSED, "2 nodes with 3 GPUs, 2 of them healthy"
    )


def test_node_that_is_not_ready_is_named_and_is_a_failure_only_if_no_node_is_ready() -> None:
    competing = node_topology("n1", (True,), "False", "CompetingAllocator")
    silent = {"metadata": {"name": "n2"}}
    one = judge_topologies([competing, node_topology("n3", (True,))])
    assert one.verdict is InstallVerdict.PASSED
    assert one.details.endswith("1 nodes are not ready: n1: CompetingAllocator: a message")
    none = judge_topologies([competing, silent])
    assert none.verdict is InstallVerdict.FAILED
    assert "n2: its agent has not written the status" in none.details
    many = judge_topologies([node_topology(f"n{number}", (), "False") for number in range(9)])
    assert "n2: " in many.details
    assert many.details.endswith("; and 6 more")


def test_status_with_other_conditions_only_is_not_ready() -> None:
    topology = node_topology("n1", (True,))
    topology["status"]["conditions"][0]["type"] = "AllGpusHealthy"
    assert "has not written the status" in judge_topologies([topology]).details


def test_cluster_without_gpus_is_no_failure() -> None:
    assert judge_topologies([]).verdict is InstallVerdict.SKIPPED


@pytest.mark.parametrize(
    ("forged", "rejection", "verdict"),
    [
        (False, "", InstallVerdict.PASSED),
        (False, "spec.schedulerName: wrong", InstallVerdict.FAILED),
        (True, "", InstallVerdict.FAILED),
        (True, "only the extender may", InstallVerdict.PASSED),
    ],
)
def test_only_the_forged_pod_must_be_rejected(
    *, forged: bool, rejection: str, verdict: InstallVerdict
) -> None:
    (run,) = [
        each
        for each in dry_runs("gpus", "example.com/gpu", "links")
        if each.forged == forged and each.resource == "pods"
    ]
    check = judge_dry_run(run, rejection)
    assert check.verdict is verdict
    assert rejection in check.details


def test_results_are_a_table_of_one_line_each_or_json() -> None:
    checks = [
        InstallCheck("operator", InstallVerdict.PASSED, "1 pod"),
        InstallCheck("GPUJob", InstallVerdict.FAILED, "a message\nof two lines"),
    ]
    assert show(checks, "table").splitlines() == [
        "RESULT   CHECK              DETAILS",
        "passed   operator           1 pod",
        "failed   GPUJob             a message of two lines",
    ]
    assert json.loads(show(checks, "json"))["checks"][1] == {
        "name": "GPUJob",
        "verdict": "failed",
        "details": "a message\nof two lines",
    }
    assert has_failed(checks)
    assert not has_failed(checks[:1])
