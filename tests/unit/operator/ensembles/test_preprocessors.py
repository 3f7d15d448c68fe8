"""Each flotilla of an ensemble has a preprocessor with the CPUs that its members need."""

from typing import Any

import pytest

from gputopo.api.names import PREPROCESSOR_VARIABLE
from support.api.faults import Fault
from support.operator.ensembles import EnsembleCluster, ensemble, member
from support.operator.served_ensemble import Served

CONTAINER = {"name": "main", "image": "decode:1", "resources": {"limits": {"memory": "1Gi"}}}
THROUGHPUT = [
    {"cores": 1, "itemsPerSecond": 60},
    {"cores": 2, "itemsPerSecond": "118.5"},
    {"cores": 4, "itemsPerSecond": 230},
]


def preprocessing(**fields: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"team": "x"}}, "spec": {"containers": [dict(CONTAINER)]}}
    return {"throughput": THROUGHPUT, "port": 9000, "template": template, **fields}


def two(**fields: Any) -> EnsembleCluster:
    """Return two members that fit on a node one after the other."""
    members = [member("fast", {4: 100}, steps=1000), member("slow", {4: 50}, steps=1000)]
    spec = ensemble(*members, preprocessing=preprocessing(**fields))
    return EnsembleCluster({"n1": 4}, spec)


def ready(cluster: EnsembleCluster, name: str) -> None:
    cluster.preprocessors[name]["status"] = {"ready": 1}


def test_preprocessor_has_the_fewest_cpus_that_are_enough() -> None:
    cluster = two()
    cluster.run_on()
    job = cluster.preprocessors["search-preprocessor-1"]
    pod = job["spec"]["template"]
    assert pod["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "2"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    assert pod["metadata"]["labels"]["team"] == "x"
    assert job["metadata"]["ownerReferences"][0]["uid"] == "uid-search"
    found = cluster.status["preprocessor"]
    assert (found["cores"], found["demandMicroItemsPerSecond"]) == (2, 100_000_000)


def test_members_know_the_address() -> None:
    cluster = two()
    cluster.run_on()
    containers = cluster.jobs["search-fast"]["spec"]["template"]["spec"]["containers"]
    value = "$(SEARCH_PREPROCESSOR_SERVICE_HOST):9000"
    assert containers[0]["env"] == [{"name": PREPROCESSOR_VARIABLE, "value": value}]


def test_former_preprocessor_ends_when_that_of_the_next_flotilla_is_ready() -> None:
    cluster = two()
    cluster.run_on()
    assert cluster.condition("Preprocessed")["reason"] == "PreprocessorNotReady"
    ready(cluster, "search-preprocessor-1")
    cluster.run_on()
    assert cluster.condition("Preprocessed")["reason"] == "PreprocessorReady"
    cluster.end("fast")
    cluster.run_on()
    assert set(cluster.preprocessors) == {"search-preprocessor-1", "search-preprocessor-2"}
    limits = cluster.preprocessors["search-preprocessor-2"]["spec"]["template"]["spec"]
    assert limits["containers"][0]["resources"]["limits"]["cpu"] == "1"
    assert "suspend" not in cluster.preprocessors["search-preprocessor-1"]["spec"]
    ready(cluster, "search-preprocessor-2")
    cluster.run_on()
    assert cluster.preprocessors["search-preprocessor-1"]["spec"]["suspend"] is True


def test_no_preprocessor_runs_while_no_member_does() -> None:
    cluster = two()
    cluster.run_on()
    cluster.suspend(suspended=True)
    cluster.run_on()
    assert cluster.preprocessors["search-preprocessor-1"]["spec"]["suspend"] is True
    assert cluster.condition("Preprocessed")["reason"] == "NoMemberRuns"
    cluster.suspend(suspended=False)
    cluster.run_on()
    assert cluster.preprocessors["search-preprocessor-1"]["spec"]["suspend"] is False


def test_members_that_share_nothing_need_the_sum_and_too_little_is_reported() -> None:
    members = [member(name, {2: 150}, steps=1000) for name in "ab"]
    spec = ensemble(*members, preprocessing=preprocessing(shared=False))
    cluster = EnsembleCluster({"n1": 4}, spec)
    cluster.run_on()
    ready(cluster, "search-preprocessor-1")
    cluster.run_on()
    text = "4 cores deliver 230 of 300 items per second"
    condition = cluster.condition("Preprocessed")
    assert (condition["reason"], condition["message"]) == ("DemandNotMet", text)
    assert cluster.status["preprocessor"]["message"] == text


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({}, "spec.preprocessing.template.spec: is required"),
        ({"spec": {"containers": []}}, "spec.preprocessing.template.spec.containers: []"),
    ],
)
def test_invalid_template_is_rejected(template: dict[str, Any], message: str) -> None:
    cluster = two(template=template)
    cluster.run_on()
    assert cluster.condition("Accepted")["message"].startswith(message)


@pytest.fixture
def preprocessed(served: Served) -> Served:
    raw = served.api.get("gpuensembles", "search")
    assert raw is not None
    raw["spec"]["preprocessing"] = preprocessing()
    served.api.put("gpuensembles", raw)
    return served


def test_service_and_job_are_created_before_the_members(preprocessed: Served) -> None:
    preprocessed.reconcile()
    paths = [write.path.rpartition("/namespaces/default/")[2] for write in preprocessed.api.writes]
    assert paths[1:5] == [
        "services/search-preprocessor",
        "jobs/search-preprocessor-1",
        "gpujobs/search-a",
        "gpujobs/search-b",
    ]


def test_service_of_an_earlier_flotilla_is_kept(preprocessed: Served) -> None:
    metadata = {"name": "search-preprocessor", "namespace": "default"}
    preprocessed.api.create("services", {"metadata": metadata})
    preprocessed.reconcile()
    assert preprocessed.api.get("jobs", "search-preprocessor-1") is not None


def test_rejected_preprocessor_is_a_condition_and_an_event(preprocessed: Served) -> None:
    preprocessed.api.faults.append(Fault("POST", "/jobs", 403, "quota exceeded"))
    assert preprocessed.reconcile() == 60
    text = "Job search-preprocessor-1 was rejected: quota exceeded"
    assert preprocessed.status["preprocessor"]["message"] == text
    assert "PreprocessorRejected" in preprocessed.reasons()
    preprocessed.reconcile()
    assert preprocessed.api.get("jobs", "search-preprocessor-1") is not None


def test_preprocessor_of_an_ended_ensemble_is_suspended(preprocessed: Served) -> None:
    preprocessed.reconcile()
    raw = preprocessed.api.get("gpuensembles", "search")
    assert raw is not None
    raw["status"]["phase"] = "Failed"
    preprocessed.api.put("gpuensembles", raw)
    assert preprocessed.reconcile() is None
    job = preprocessed.api.get("jobs", "search-preprocessor-1")
    assert job is not None
    assert job["spec"]["suspend"] is True
    writes = len(preprocessed.api.writes)
    preprocessed.reconcile()
    assert len(preprocessed.api.writes) == writes
