"""The preprocessor of an ensemble has the CPUs that the members need."""

from typing import Any

import pytest

from gputopo.api.names import PREPROCESSOR_VARIABLE
from gputopo_operator.model.ensembles import PreprocessorWrites
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
    job = cluster.preprocessors["search-preprocessor-2"]
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


def test_members_that_wait_for_each_other_get_no_gpus_that_are_left_over() -> None:
    a, b = member("a", {1: 100, 2: 200}), member("b", {1: 90})
    for shared, gpus in ((True, [1, 1]), (False, [2, 1])):
        spec = ensemble(a, b, preprocessing=preprocessing(shared=shared))
        cluster = EnsembleCluster({"n1": 4}, spec)
        cluster.run_on()
        assert [cluster.of(name)["gpus"] for name in "ab"] == gpus


def test_members_know_the_address() -> None:
    cluster = two()
    cluster.run_on()
    containers = cluster.jobs["search-fast"]["spec"]["template"]["spec"]["containers"]
    env = [{"name": PREPROCESSOR_VARIABLE, "value": "10.96.3.7:9000"}]
    assert containers[0]["env"] == env


def cpus(cluster: EnsembleCluster, name: str) -> str:
    pod = cluster.preprocessors[name]["spec"]["template"]["spec"]
    return str(pod["containers"][0]["resources"]["limits"]["cpu"])


def test_init_containers_know_the_address_too_and_one_of_ipv6_has_brackets() -> None:
    template = {"spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}}
    job = {"spec": {"template": template}}
    spec = ensemble(member("a", {1: 100}, jobTemplate=job), preprocessing=preprocessing())
    cluster = EnsembleCluster({"n1": 1}, spec)
    cluster.decide()
    assert cluster.service is not None
    assert cluster.jobs == {}
    cluster.service["spec"]["clusterIP"] = "fd00::7"
    cluster.run_on()
    pod = cluster.jobs["search-a"]["spec"]["template"]["spec"]
    env = [{"name": PREPROCESSOR_VARIABLE, "value": "[fd00::7]:9000"}]
    assert [pod[each][0]["env"] for each in ("initContainers", "containers")] == [env, env]


def test_preprocessor_gets_more_cpus_when_the_members_need_more() -> None:
    cluster = EnsembleCluster({"n1": 1}, ensemble(member("a"), preprocessing=preprocessing()))
    cluster.run_on()
    assert cluster.status["preprocessor"]["cores"] == 1
    cluster.measured["a"] = 200
    cluster.run_on()
    found = cluster.status["preprocessor"]
    assert (found["job"], found["cores"]) == ("search-preprocessor-4", 4)
    assert cpus(cluster, "search-preprocessor-4") == "4"


def lockstep(**fields: Any) -> EnsembleCluster:
    members = [member("fast", {1: 100}, steps=100_000), member("slow", {1: 70}, steps=100_000)]
    spec = preprocessing(**fields)
    cluster = EnsembleCluster({"n1": 2}, ensemble(*members, preprocessing=spec))
    cluster.run_on()
    return cluster


def rate_warnings(cluster: EnsembleCluster) -> list[str]:
    return [event for event in cluster.events if event.startswith("RateDiffers")]


def test_rate_of_a_member_that_waits_for_a_slower_one_is_not_wrong() -> None:
    cluster = lockstep()
    cluster.measured |= {"fast": 70, "slow": 69}
    cluster.run_on()
    assert rate_warnings(cluster) == []
    assert cluster.of("fast")["plannedMicroItemsPerSecond"] == 100_000_000
    assert cluster.of("fast")["measuredMicroItemsPerSecond"] == 70_000_000


@pytest.mark.parametrize(
    ("shared", "measured", "warned"),
    [
        (True, {"fast": 100, "slow": 50}, "slow"),
        (True, {"fast": 150, "slow": 150}, "fast"),
        (True, {"fast": 70}, "fast"),
        (False, {"fast": 70, "slow": 69}, "fast"),
    ],
)
def test_other_rates_that_differ_are_wrong(
    *, shared: bool, measured: dict[str, float], warned: str
) -> None:
    cluster = lockstep(shared=shared)
    cluster.measured |= measured
    cluster.run_on()
    assert rate_warnings(cluster)[0].startswith(f"RateDiffers: {warned} makes")


def test_preprocessor_has_enough_cpus_after_the_limits_were_changed() -> None:
    a = member("a", {1: 50, 4: 200}, steps=1000)
    cluster = EnsembleCluster({"n1": 4}, ensemble(a, preprocessing=preprocessing(), maxGPUs=1))
    cluster.run_on()
    cluster.suspend(suspended=True)
    cluster.run_on()
    cluster.change(maxGPUs=4)
    cluster.suspend(suspended=False)
    cluster.run_on()
    assert cluster.status["preprocessor"]["cores"] == 4


def test_members_that_end_do_not_cause_new_preprocessors() -> None:
    members = [member(f"m{i}", {1: 100 - i}, steps=1000) for i in range(8)]
    cluster = EnsembleCluster({"n1": 2}, ensemble(*members, preprocessing=preprocessing()))
    for _ in members:
        cluster.run_on()
        cluster.end(min(cluster.working()))
    cluster.run_on()
    assert cluster.status["phase"] == "Succeeded"
    assert list(cluster.preprocessors) == ["search-preprocessor-2"]


def test_preprocessor_with_more_cpus_is_kept_unless_it_has_twice_too_many() -> None:
    throughput = [{"cores": n, "itemsPerSecond": 100 * n} for n in (2, 3, 4)]
    spec = preprocessing(throughput=throughput)
    cluster = EnsembleCluster({"n1": 1}, ensemble(member("a", {1: 290}), preprocessing=spec))
    cluster.run_on()
    assert cluster.status["preprocessor"]["cores"] == 3
    cluster.measured["a"] = 150
    cluster.run_on()
    assert cluster.status["preprocessor"]["demandMicroItemsPerSecond"] == 150_000_000
    assert cluster.status["preprocessor"]["cores"] == 3


def test_former_preprocessor_ends_when_that_of_the_next_flotilla_is_ready() -> None:
    cluster = two()
    cluster.run_on()
    condition = cluster.condition("Preprocessed")
    assert condition["reason"] == "PreprocessorNotReady"
    assert condition["message"] == "its pod is not ready yet"
    ready(cluster, "search-preprocessor-2")
    cluster.run_on()
    assert cluster.condition("Preprocessed")["reason"] == "PreprocessorReady"
    cluster.end("fast")
    cluster.run_on()
    assert set(cluster.preprocessors) == {"search-preprocessor-1", "search-preprocessor-2"}
    assert cpus(cluster, "search-preprocessor-1") == "1"
    assert "suspend" not in cluster.preprocessors["search-preprocessor-2"]["spec"]
    ready(cluster, "search-preprocessor-1")
    cluster.run_on()
    assert cluster.preprocessors["search-preprocessor-2"]["spec"]["suspend"] is True


def test_no_preprocessor_runs_while_no_member_does() -> None:
    cluster = two()
    cluster.run_on()
    cluster.suspend(suspended=True)
    cluster.run_on()
    assert cluster.preprocessors["search-preprocessor-2"]["spec"]["suspend"] is True
    assert cluster.condition("Preprocessed")["reason"] == "NoMemberRuns"
    cluster.suspend(suspended=False)
    cluster.run_on()
    assert cluster.preprocessors["search-preprocessor-2"]["spec"]["suspend"] is False


def test_members_that_share_nothing_need_the_sum_and_too_little_is_reported() -> None:
    members = [member(name, {2: 150}, steps=1000) for name in "ab"]
    spec = ensemble(*members, preprocessing=preprocessing(shared=False))
    cluster = EnsembleCluster({"n1": 4}, spec)
    cluster.run_on()
    ready(cluster, "search-preprocessor-4")
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


def preprocessed_message(served: Served) -> tuple[str, str]:
    found = next(each for each in served.status["conditions"] if each["type"] == "Preprocessed")
    return found["reason"], found["message"]


def test_service_and_job_are_created_before_the_members(preprocessed: Served) -> None:
    assert preprocessed.reconcile() == 1
    assert "MemberStarted" not in preprocessed.reasons()
    preprocessed.reconcile()
    paths = [write.path.rpartition("/namespaces/default/")[2] for write in preprocessed.api.writes]
    assert [path for path in paths if not path.startswith("events")] == [
        "gpuensembles/search/status",
        "services/search-preprocessor",
        "jobs/search-preprocessor-2",
        "gpujobs/search-a",
        "gpujobs/search-b",
    ]
    assert preprocessed.reasons().count("MemberStarted") == 2


@pytest.mark.parametrize("owner", ["", "uid-of-the-deleted-ensemble"])
def test_service_of_another_owner_is_not_used_and_that_of_the_ensemble_is_created_later(
    preprocessed: Served, owner: str
) -> None:
    metadata = {"name": "search-preprocessor", "namespace": "default"}
    owners = [{"uid": owner, "controller": True}] if owner else []
    service = {
        "metadata": {**metadata, "ownerReferences": owners},
        "spec": {"clusterIP": "1.1.1.1"},
    }
    preprocessed.api.create("services", service)
    assert preprocessed.reconcile() == 10
    text = "Service search-preprocessor exists, but this GPUEnsemble does not own it; delete that"
    reason, message = preprocessed_message(preprocessed)
    assert (reason, message.startswith(text)) == ("PreprocessorRejected", True)
    assert preprocessed.api.all("gpujobs") == []
    writes = len(preprocessed.api.writes)
    preprocessed.reconcile()
    assert len(preprocessed.api.writes) == writes
    preprocessed.api.delete("services", "search-preprocessor")
    preprocessed.reconcile()
    preprocessed.reconcile()
    assert len(preprocessed.api.all("gpujobs")) == 2
    assert preprocessed_message(preprocessed)[0] == "PreprocessorNotReady"


def test_service_that_was_deleted_is_created_again(preprocessed: Served) -> None:
    preprocessed.reconcile()
    preprocessed.reconcile()
    preprocessed.api.delete("services", "search-preprocessor")
    preprocessed.reconcile()
    assert preprocessed.api.get("services", "search-preprocessor") is not None


def test_job_of_another_owner_is_a_message_that_is_written_once(preprocessed: Served) -> None:
    job = {
        "metadata": {"name": "search-preprocessor-2", "namespace": "default"},
        "spec": {"template": {"spec": {"containers": []}}},
    }
    preprocessed.api.create("jobs", job)
    assert preprocessed.reconcile() == 60
    text = "Job search-preprocessor-2 exists, but this GPUEnsemble does not own it"
    assert preprocessed_message(preprocessed)[1].startswith(text)
    preprocessed.reconcile()
    writes = len(preprocessed.api.writes)
    preprocessed.reconcile()
    statuses = [each.path for each in preprocessed.api.writes[writes:] if "status" in each.path]
    assert len(statuses) <= 1  # the members start


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, "its pod is not ready yet"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}]},
            "pod decoder: no node",
        ),
        (
            {"containerStatuses": [{"state": {"waiting": {"message": "no image"}}}]},
            "pod decoder: no image",
        ),
        (
            {
                "conditions": [{"type": "PodScheduled", "status": "True"}],
                "containerStatuses": [{"state": {"running": {}}}],
            },
            "its pod is not ready yet",
        ),
    ],
)
def test_condition_has_the_reason_why_the_preprocessor_is_not_ready(
    preprocessed: Served, status: dict[str, Any], text: str
) -> None:
    preprocessed.reconcile()
    job = preprocessed.api.get("jobs", "search-preprocessor-2")
    assert job is not None
    metadata = {
        "name": "decoder",
        "namespace": "default",
        "labels": job["metadata"]["labels"],
        "ownerReferences": [{"uid": job["metadata"]["uid"], "controller": True}],
    }
    preprocessed.api.create("pods", {"metadata": metadata, "spec": {}, "status": status})
    preprocessed.reconcile()
    assert preprocessed_message(preprocessed) == ("PreprocessorNotReady", text)


def test_preprocessor_whose_job_has_ended_is_reported(preprocessed: Served) -> None:
    preprocessed.reconcile()
    job = preprocessed.api.get("jobs", "search-preprocessor-2")
    assert job is not None
    conditions = [
        {"type": "Suspended", "status": "False"},
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"},
    ]
    job["status"] = {"conditions": conditions}
    assert job["spec"].pop("ttlSecondsAfterFinished") == 30  # an earlier release did not set it
    preprocessed.api.put("jobs", job)
    preprocessed.reconcile()
    expiring = preprocessed.api.get("jobs", "search-preprocessor-2")
    assert expiring is not None
    assert expiring["spec"]["ttlSecondsAfterFinished"] == 30
    text = (
        "Job search-preprocessor-2 has ended: BackoffLimitExceeded; Kubernetes deletes it 30 s "
        "after its end, then it is created again"
    )
    assert preprocessed_message(preprocessed) == ("PreprocessorNotReady", text)


def complete(cluster: EnsembleCluster, name: str) -> None:
    """Let the program of a preprocessor end with status 0, as after SIGTERM."""
    conditions = [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}]
    cluster.preprocessors[name]["status"] = {"conditions": conditions}


@pytest.mark.parametrize("deleting", [False, True])
def test_preprocessor_that_has_ended_is_created_again_when_it_is_deleted(*, deleting: bool) -> None:
    cluster, name = two(), "search-preprocessor-2"
    cluster.run_on()
    ended = cluster.preprocessors[name]
    assert ended["spec"]["ttlSecondsAfterFinished"] == 30
    complete(cluster, name)
    if deleting:
        ended["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    plan = cluster.decide()
    assert plan.preprocessor == PreprocessorWrites()
    text = "is being deleted;" if deleting else "has ended: CompletionsReached;"
    assert text in cluster.condition("Preprocessed")["message"]
    del cluster.preprocessors[name]
    cluster.run_on()
    assert cluster.preprocessors[name] is not ended
    assert cluster.condition("Preprocessed")["message"] == "its pod is not ready yet"


def test_ended_preprocessor_of_an_earlier_release_gets_a_time_to_live() -> None:
    cluster, name = two(), "search-preprocessor-2"
    cluster.run_on()
    del cluster.preprocessors[name]["spec"]["ttlSecondsAfterFinished"]
    assert cluster.decide().preprocessor == PreprocessorWrites()
    complete(cluster, name)
    assert cluster.decide().preprocessor == PreprocessorWrites(expire=(name,))
    cluster.run_on()
    assert cluster.preprocessors[name]["spec"]["ttlSecondsAfterFinished"] == 30
    assert cluster.decide().preprocessor == PreprocessorWrites()


def test_no_member_starts_while_the_preprocessor_has_ended() -> None:
    cluster, name = two(), "search-preprocessor-2"
    cluster.run_on()
    cluster.suspend(suspended=True)
    cluster.run_on()
    complete(cluster, name)
    cluster.preprocessors[name]["spec"]["suspend"] = False
    cluster.suspend(suspended=False)
    cluster.run_on()
    assert cluster.jobs == {}
    assert set(cluster.phases().values()) == {"Waiting"}
    del cluster.preprocessors[name]
    cluster.run_on()
    assert set(cluster.jobs) == {"search-fast"}


def test_preprocessor_that_has_ended_is_not_suspended() -> None:
    cluster, name = two(), "search-preprocessor-2"
    cluster.run_on()
    complete(cluster, name)
    cluster.suspend(suspended=True)
    cluster.run_on()
    assert "suspend" not in cluster.preprocessors[name]["spec"]


def test_preprocessor_with_enough_cpus_is_used_beside_one_that_has_ended() -> None:
    cluster = two()
    cluster.run_on()
    ready(cluster, "search-preprocessor-2")
    cluster.end("fast")
    cluster.run_on()
    complete(cluster, "search-preprocessor-1")
    cluster.run_on()
    assert set(cluster.preprocessors) == {"search-preprocessor-1", "search-preprocessor-2"}
    assert "suspend" not in cluster.preprocessors["search-preprocessor-2"]["spec"]
    del cluster.preprocessors["search-preprocessor-1"]
    cluster.run_on()
    ready(cluster, "search-preprocessor-1")
    cluster.run_on()
    assert cluster.preprocessors["search-preprocessor-2"]["spec"]["suspend"] is True


def test_member_may_not_have_the_name_of_a_job_of_the_preprocessor() -> None:
    spec = ensemble(member("preprocessor-1", {1: 50}), preprocessing=preprocessing())
    cluster = EnsembleCluster({"n1": 4}, spec)
    cluster.run_on()
    text = "spec.members[0].name: preprocessor-1 begins with preprocessor, as the Jobs of the"
    assert cluster.condition("Accepted")["message"].startswith(text)


def test_rejected_preprocessor_is_a_condition_and_an_event(preprocessed: Served) -> None:
    preprocessed.api.faults.append(Fault("POST", "/jobs", 403, "quota exceeded"))
    assert preprocessed.reconcile() == 60
    text = "Job search-preprocessor-2 was rejected: quota exceeded"
    assert preprocessed.status["preprocessor"]["message"] == text
    assert "PreprocessorRejected" in preprocessed.reasons()
    preprocessed.reconcile()
    assert preprocessed.api.get("jobs", "search-preprocessor-2") is not None


def test_preprocessor_of_an_ended_ensemble_is_suspended(preprocessed: Served) -> None:
    preprocessed.reconcile()
    raw = preprocessed.api.get("gpuensembles", "search")
    assert raw is not None
    raw["status"]["phase"] = "Failed"
    preprocessed.api.put("gpuensembles", raw)
    assert preprocessed.reconcile() is None
    job = preprocessed.api.get("jobs", "search-preprocessor-2")
    assert job is not None
    assert job["spec"]["suspend"] is True
    writes = len(preprocessed.api.writes)
    preprocessed.reconcile()
    assert len(preprocessed.api.writes) == writes
