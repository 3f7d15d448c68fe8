"""Which GPUJobs and GPUProfiles a new status of a GPUTopology concerns."""

from typing import Any

import pytest

from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.node_reports import NodeReports
from gputopo_operator.model.workloads import ReportChanges
from support.builders.node_reports import measurement, node_sample, reporting

BERT = ObjectKey("default", "bert")
NOTHING = ReportChanges()


def after(first: dict[str, Any], second: dict[str, Any]) -> ReportChanges:
    """Return what a second report of a node concerns."""
    reports = NodeReports()
    reports.replace(first)
    return reports.replace(second)


def test_first_report_concerns_all_its_pods_and_profiles() -> None:
    topology = reporting(
        "n1", measurements=[measurement()], samples=[node_sample(profile="ended")], users=["uid-a"]
    )
    assert NodeReports().replace(topology) == ReportChanges(
        frozenset({"uid-a", "uid-train-1"}), frozenset({BERT, ObjectKey("default", "ended")})
    )


def test_repeated_report_concerns_nothing() -> None:
    topology = reporting(
        "n1", measurements=[measurement()], samples=[node_sample()], users=["uid-train-1"]
    )
    assert after(topology, topology) == NOTHING


@pytest.mark.parametrize(
    ("change", "concerned"),
    [
        ({"microStepsPerSecond": 12_500_000}, False),
        ({"microStepsPerSecond": 14_000_000}, True),
        ({"state": "Stalled", "microStepsPerSecond": None}, True),
    ],
    ids=["a slightly different rate", "a clearly different rate", "another state"],
)
def test_new_rate_of_one_pod_concerns_its_job_only_if_it_differs_clearly(
    change: dict[str, Any], *, concerned: bool
) -> None:
    other = measurement("other-1")
    first = reporting("n1", measurements=[measurement(), other])
    second = reporting("n1", measurements=[measurement(**change), other])
    assert after(first, second).pods == ({"uid-train-1"} if concerned else set())
    assert after(first, second).profiles == set()


def test_rate_that_drifts_slowly_concerns_its_job_in_the_end() -> None:
    reports = NodeReports()
    rates = [10_000_000 + 200_000 * step for step in range(6)]
    concerned = [
        bool(
            reports.replace(
                reporting("n1", measurements=[measurement(microStepsPerSecond=rate, ciPermille=5)])
            ).pods
        )
        for rate in rates
    ]
    # Each rate is 2 % higher than the one before; the fourth is 6 % higher than the first.
    assert concerned == [True, False, False, True, False, False]


def test_pod_that_gets_or_loses_a_gpu_concerns_its_job() -> None:
    one, two = reporting("n1", users=["uid-a"]), reporting("n1", users=["uid-a", "uid-a"])
    assert after(one, two).pods == {"uid-a"}
    assert after(two, one).pods == {"uid-a"}
    assert after(one, reporting("n1")) == NOTHING, "the pod has ended, and its own event shows it"


def test_new_sample_or_a_new_pod_concerns_the_profile_and_a_dropped_sample_does_not() -> None:
    both, old = [node_sample(1), node_sample(2)], [node_sample(1)]
    assert after(reporting("n1", samples=old), reporting("n1", samples=both)).profiles == {BERT}
    assert after(reporting("n1", samples=both), reporting("n1", samples=old)) == NOTHING
    one, two = [measurement("a")], [measurement("a"), measurement("b")]
    assert after(reporting("n1", measurements=one), reporting("n1", measurements=two)).profiles == {
        BERT
    }
    assert after(reporting("n1", measurements=two), reporting("n1", measurements=one)) == NOTHING


def test_pod_without_a_profile_concerns_no_profile() -> None:
    topology = reporting("n1", measurements=[measurement(profile=None)])
    assert NodeReports().replace(topology).profiles == set()


def test_evidence_of_a_workload_comes_from_all_nodes_in_the_order_of_time() -> None:
    reports = NodeReports()
    reports.replace(reporting("n1", samples=[node_sample(3), node_sample(1)]))
    reports.replace(
        reporting(
            "n2",
            measurements=[measurement("here"), measurement("there", profile="other")],
            samples=[node_sample(2), node_sample(9, profile="other"), node_sample(1)],
        )
    )
    found = reports.evidence(BERT)
    assert [each.pod_uid for each in found.samples] == ["u1", "u2", "u3"]
    assert found.running == {"uid-here"}
    assert reports.uids() == {"n1": "uid-n1", "n2": "uid-n2"}
    reports.drop("n1", "uid-n1")
    reports.drop("unknown", "uid-n1")
    assert [each.pod_uid for each in reports.evidence(BERT).samples] == ["u1", "u2"]
    assert reports.uids() == {"n2": "uid-n2"}


def test_events_during_a_list_win() -> None:
    reports = NodeReports()
    for node in ("n1", "deleted"):
        reports.replace(reporting(node, users=["uid-a"]))
    assert reports.begin_list() == {"n1": "uid-n1", "deleted": "uid-deleted"}
    reports.replace(reporting("n1", users=["uid-b"]))
    reports.drop("deleted", "uid-deleted")
    older = [reporting(node, users=["uid-a"]) for node in ("n1", "deleted", "n2")]
    changed = [reports.replace(each, listed=True).pods for each in older]
    assert changed == [set(), set(), {"uid-a"}]
    assert reports.uids().keys() == {"n1", "n2"}
    reports.begin_list()
    assert reports.replace(older[0], listed=True).pods == {"uid-a"}


def test_late_deletion_keeps_the_report_of_the_next_object_of_a_node() -> None:
    reports = NodeReports()
    created = reporting("n1", measurements=[measurement()])
    created["metadata"]["uid"] = "created-again"
    reports.replace(created)
    reports.drop("n1", "uid-n1")
    assert reports.measured("n1")
    reports.drop("n1", "created-again")
    assert not reports.measured("n1")


def test_sample_of_a_newer_agent_is_skipped() -> None:
    reports = NodeReports()
    newer = {**node_sample(1), "source": "Counters"}
    reports.replace(reporting("n1", samples=[newer, node_sample(2)]))
    assert [each.pod_uid for each in reports.evidence(BERT).samples] == ["u2"]


def test_new_topology_without_a_status_reports_nothing() -> None:
    topology = reporting("n1")
    del topology["status"]
    assert NodeReports().replace(topology) == NOTHING
