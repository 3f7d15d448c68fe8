"""The reconciler updates GPUProfiles from reports of nodes; with a fake API server."""

from typing import Any

import pytest

from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import ApiError
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.profile_reconciler import ProfileReconciler
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.metrics import OperatorMetrics
from support.api.faults import Fault, Hook
from support.api.server import ApiServer
from support.builders.node_reports import gpu_profile, measurement, node_sample, reporting

BERT = ObjectKey("default", "bert")
OTHER = {"name": "bert", "namespace": "other"}
NOW = "2026-11-22T12:00:00Z"


class Operator:
    """A reconciler with the reports and the metrics of one process."""

    def __init__(self, api: JobApi) -> None:
        self.nodes, self.metrics = NodeStore(), OperatorMetrics()
        reconciler = ProfileReconciler(api, self.nodes, self.metrics, lambda: NOW)
        self.reconcile = reconciler.reconcile

    def report(self, node: str = "n1", **report: Any) -> float | None:
        """Receive the report of a node and reconcile the profile ``bert``."""
        self.nodes.reports.replace(reporting(node, **report))
        return self.reconcile(BERT)


@pytest.fixture
def operator(job_api: JobApi) -> Operator:
    return Operator(job_api)


def status(api: ApiServer) -> Document:
    found = api.get("gpuprofiles", "bert")
    assert found is not None
    result: Document = found.get("status", {})
    return result


def writes(api: ApiServer) -> list[tuple[str, str]]:
    return [(method, path.partition("namespaces/default/")[2]) for method, path, _ in api.writes]


def test_sample_reaches_the_profile_in_one_write(api: ApiServer, operator: Operator) -> None:
    api.create("gpuprofiles", gpu_profile())
    assert operator.report(samples=[node_sample(1), node_sample(2)]) is None
    assert [sample["podUID"] for sample in status(api)["samples"]] == ["u1", "u2"]
    assert writes(api) == [("PATCH", "gpuprofiles/bert/status")]
    assert operator.metrics.registry.get_sample_value("gputopo_operator_profile_updates_total") == 1
    operator.report("n2", samples=[node_sample(2)])
    assert len(writes(api)) == 1, "the sample is in the profile already"


def test_field_that_is_no_longer_known_is_removed(api: ApiServer, operator: Operator) -> None:
    api.create("gpuprofiles", gpu_profile(bandwidthSensitivityPercent=45))
    operator.reconcile(BERT)
    assert "podAnnotation" in status(api)
    api.change("gpuprofiles", "bert", lambda profile: profile.update(spec={}))
    operator.reconcile(BERT)
    assert "podAnnotation" not in status(api)
    assert status(api)["observedGeneration"] == 2


def test_profile_that_a_running_pod_names_is_created_with_its_samples(
    api: ApiServer, operator: Operator
) -> None:
    running = measurement("u1", podUID="u1")
    delay = operator.report(measurements=[running], samples=[node_sample(1)])
    assert delay == CONFLICT_DELAY_SECONDS
    assert operator.reconcile(BERT) is None
    assert [sample["podUID"] for sample in status(api)["samples"]] == ["u1"]


def test_profile_of_ended_pods_only_is_not_created(api: ApiServer, operator: Operator) -> None:
    assert operator.report(samples=[node_sample(1)]) is None
    assert api.writes == []


def test_profile_that_a_quota_forbids_is_created_later(api: ApiServer, operator: Operator) -> None:
    api.faults.append(Fault("POST", "/gpuprofiles", 403, "exceeded quota"))
    assert operator.report(measurements=[measurement()]) == 60.0
    assert operator.reconcile(BERT) == CONFLICT_DELAY_SECONDS
    assert api.get("gpuprofiles", "bert") is not None


def test_no_profile_is_created_in_a_namespace_with_too_many(
    api: ApiServer, connection: SyncApi, caplog: pytest.LogCaptureFixture
) -> None:
    operator = Operator(JobApi(connection, most_profiles=2))
    for name in ("run-1", "run-2"):
        api.create("gpuprofiles", gpu_profile(name))
    api.create("gpuprofiles", {**gpu_profile("other"), "metadata": OTHER})
    assert operator.report(measurements=[measurement()]) == 60.0
    assert api.get("gpuprofiles", "bert") is None
    assert "namespace default has 2 GPUProfiles, and gputopo creates no more than 2" in caplog.text
    count = operator.metrics.registry.get_sample_value
    assert count("gputopo_operator_rejected_profiles_total") == 1
    api.delete("gpuprofiles", "run-1")
    assert operator.reconcile(BERT) == CONFLICT_DELAY_SECONDS
    assert api.get("gpuprofiles", "bert") is not None


def test_failed_creation_is_an_error(api: ApiServer, operator: Operator) -> None:
    api.faults.append(Fault("POST", "/gpuprofiles", 500))
    with pytest.raises(ApiError):
        operator.report(measurements=[measurement()])


def test_second_operator_loses_no_sample_of_the_first(api: ApiServer, job_api: JobApi) -> None:
    """Both have read the GPUProfile without samples; the API server rejects the second write."""
    api.create("gpuprofiles", gpu_profile())
    first, second = Operator(job_api), Operator(job_api)
    second.nodes.reports.replace(reporting("n1", samples=[node_sample(1)]))

    def interrupt() -> None:
        api.change(
            "gpuprofiles", "bert", lambda profile: profile.update(status={"samples": [newer]})
        )

    newer = {name: node_sample(2)[name] for name in node_sample(2) if name != "namespace"}
    api.hooks.append(Hook("PATCH", "/gpuprofiles/bert/status", interrupt))
    assert second.reconcile(BERT) == CONFLICT_DELAY_SECONDS
    assert second.reconcile(BERT) is None
    assert [sample["podUID"] for sample in status(api)["samples"]] == ["u1", "u2"]
    assert first.report(samples=[node_sample(1)]) is None
    assert len(status(api)["samples"]) == 2


@pytest.mark.parametrize("code", [404, 409])
def test_profile_that_changes_or_is_deleted_meanwhile_is_read_again(
    api: ApiServer, operator: Operator, code: int
) -> None:
    api.create("gpuprofiles", gpu_profile())
    api.faults.append(Fault("PATCH", "/status", code))
    assert operator.report(samples=[node_sample(1)]) == CONFLICT_DELAY_SECONDS
    assert operator.reconcile(BERT) is None
    assert status(api)["sampleCount"] == 1


def test_deleted_profile_forgets_its_samples_until_new_ones_arrive(
    api: ApiServer, operator: Operator
) -> None:
    api.create("gpuprofiles", gpu_profile())
    operator.report(samples=[node_sample(1), node_sample(2)])
    api.delete("gpuprofiles", "bert")
    assert operator.reconcile(BERT) is None
    assert api.get("gpuprofiles", "bert") is None
    api.create("gpuprofiles", gpu_profile(created="2026-01-02T10:00:03Z"))
    operator.report(samples=[node_sample(1), node_sample(2), node_sample(4)])
    assert [sample["podUID"] for sample in status(api)["samples"]] == ["u4"]


def test_changed_sensitivity_is_an_event(
    api: ApiServer, operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    api.create("gpuprofiles", gpu_profile())
    fact = {"gpus": 2, "percent": 45, "lowPercent": 40, "highPercent": 50, "samples": 8}
    facts = {"gpuModel": "V100", "links": [{**fact, "sensitivity": "Sensitive"}]}
    for _ in range(2):
        # Without samples the next update removes the fact.
        api.change("gpuprofiles", "bert", lambda profile: profile.update(status={"facts": facts}))
        assert operator.reconcile(BERT) is None
        api.faults.append(Fault("POST", "/events", 403, "exceeded quota"))
    [event] = api.all("events")
    assert (event["reason"], event["regarding"]["kind"]) == ("SensitivityMeasured", "GPUProfile")
    assert event["note"] == "2 GPUs: Unknown (was Sensitive): too few samples"
    assert "event not created event=SensitivityMeasured kind=GPUProfile" in caplog.text


def test_five_hundred_workloads_need_two_requests_each(api: ApiServer, operator: Operator) -> None:
    names = [f"workload-{number:03}" for number in range(500)]
    for number, name in enumerate(names):
        api.create("gpuprofiles", gpu_profile(name))
        samples = [node_sample(sample, profile=name) for sample in range(number % 3 + 1)]
        operator.nodes.reports.replace(reporting(f"n{number}", samples=samples))
    for _ in range(2):
        for name in names:
            assert operator.reconcile(ObjectKey("default", name)) is None
    assert api.count("PATCH", "/gpuprofiles/") == 500
    assert api.count("GET", "/gpuprofiles/") == 1_000
    assert len(api.requests) == 1_500
    counts = [profile["status"]["sampleCount"] for profile in api.all("gpuprofiles")]
    assert counts == [number % 3 + 1 for number in range(500)]
