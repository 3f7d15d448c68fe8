"""Which GPUJobs and GPUProfiles a new status of a GPUTopology concerns."""

from typing import Any
from unittest.mock import Mock

import pytest

from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.queues import Queues
from gputopo_operator.model.workloads import ReportChanges
from gputopo_operator.parse.samples import evidence_of
from support.builders.node_reports import measurement, node_sample, reporting

BERT = ObjectKey("default", "bert")
NOTHING = ReportChanges()


class Concerned:
    """The GPUJobs and GPUProfiles that the reports of nodes add to the queues.

    The GPUJob of a pod has the name of the pod's UID.
    """

    def __init__(self) -> None:
        self.nodes = NodeStore()
        self._jobs: set[ObjectKey] = set()
        self._profiles: set[ObjectKey] = set()
        jobs, profiles = Mock(), Mock()
        jobs.add.side_effect = self._jobs.add
        profiles.add_later.side_effect = lambda key, _: self._profiles.add(key)
        queues = Queues(jobs, profiles, namespaces=(), profile_delay_seconds=0.0)
        for uid in ("uid-a", "uid-train-1", "uid-other-1", "uid-deleted"):
            queues.pod_changed(uid, ObjectKey("default", uid), deleted=False)
        queues.pod_changed("uid-deleted", ObjectKey("default", "uid-deleted"), deleted=True)
        self.nodes.reports.subscribe(queues.report_changed)
        self._jobs.clear()

    def replace(self, topology: dict[str, Any]) -> ReportChanges:
        self.nodes.reports.follow({"type": "MODIFIED", "object": topology})
        pods = frozenset(key.name for key in self._jobs)
        found = ReportChanges(pods, frozenset(self._profiles))
        self._jobs.clear()
        self._profiles.clear()
        return found


def after(first: dict[str, Any], second: dict[str, Any]) -> ReportChanges:
    """Return what a second report of a node concerns."""
    reports = Concerned()
    reports.replace(first)
    return reports.replace(second)


def test_first_report_concerns_all_its_pods_and_profiles() -> None:
    topology = reporting(
        "n1", measurements=[measurement()], samples=[node_sample(profile="ended")], users=["uid-a"]
    )
    assert Concerned().replace(topology) == ReportChanges(
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
    reports = Concerned()
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
    assert Concerned().replace(topology).profiles == set()


def test_report_of_a_deleted_node_is_known_no_more() -> None:
    reports, topology = Concerned(), reporting("n1", users=["uid-a", "uid-deleted"])
    assert reports.replace(topology).pods == {"uid-a"}
    reports.nodes.reports.follow({"type": "DELETED", "object": topology})
    assert reports.replace(topology).pods == {"uid-a"}


def test_evidence_of_a_workload_comes_from_all_nodes_in_the_order_of_time() -> None:
    reports = NodeStore().reports
    reports.replace(reporting("n1", samples=[node_sample(3), node_sample(1)]))
    reports.replace(
        reporting(
            "n2",
            measurements=[measurement("here"), measurement("there", profile="other")],
            samples=[node_sample(2), node_sample(9, profile="other"), node_sample(1)],
        )
    )
    found = evidence_of(BERT, reports.values().values())
    assert [each.pod_uid for each in found.samples] == ["u1", "u2", "u3"]
    assert found.running == {"uid-here"}
    reports.drop(reporting("n1"))
    reports.drop(reporting("unknown"))
    found = evidence_of(BERT, reports.values().values())
    assert [each.pod_uid for each in found.samples] == ["u1", "u2"]


def test_sample_of_a_newer_agent_is_skipped() -> None:
    reports = NodeStore().reports
    newer = {**node_sample(1), "source": "Counters"}
    reports.replace(reporting("n1", samples=[newer, node_sample(2)]))
    found = evidence_of(BERT, reports.values().values())
    assert [each.pod_uid for each in found.samples] == ["u2"]


def test_new_topology_without_a_status_reports_nothing() -> None:
    topology = reporting("n1")
    del topology["status"]
    assert Concerned().replace(topology) == NOTHING
