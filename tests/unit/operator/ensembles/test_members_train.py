"""An ensemble whose members train: flotillas, ends, failures and restarts of the operator."""

from datetime import timedelta

import pytest

from support.operator.ensembles import EnsembleCluster, ensemble, member

STEPS = {"a": 100_000, "b": 1000}


def five(**spec: object) -> EnsembleCluster:
    """Return three nodes of 4 GPUs, and five members of which the slowest needs 4 GPUs."""
    members = (
        member("a", {1: 100, 2: 190, 4: 360}, steps=60_000),
        member("b", {1: 52, 2: 100, 4: 190}, steps=60_000),
        member("c", {1: 50, 2: 97, 4: 185}, steps=60_000),
        member("d", {1: 26, 2: 51, 4: 100}, steps=60_000),
        member("e", {1: 24, 2: 47, 4: 92}, steps=60_000),
    )
    return EnsembleCluster({"n1": 4, "n2": 4, "n3": 4}, ensemble(*members, **spec))


def test_all_members_train_at_the_pace_of_the_fastest_one() -> None:
    cluster = five()
    cluster.run_on()
    assert cluster.phases() == dict.fromkeys("abcde", "Running")
    assert sum(gpus for _, gpus in cluster.running().values()) <= 12
    assert cluster.status["phase"] == "Running"
    assert cluster.status["progress"] == "0 of 5 ended, 5 run"
    planned = [each["plannedMicroItemsPerSecond"] for each in cluster.status["members"]]
    assert cluster.status["spreadPercent"] == round(100 * (1 - min(planned) / max(planned)))
    assert cluster.status["spreadPercent"] <= 34


def test_jobs_are_pinned_to_the_planned_nodes_and_owned_by_the_ensemble() -> None:
    cluster = five()
    cluster.run_on()
    job = cluster.jobs["search-a"]
    node = job["metadata"]["annotations"]["gputopo.io/ensemble-node"]
    assert cluster.of("a")["node"] == node == cluster.running()["search-a"][0]
    assert job["metadata"]["ownerReferences"][0]["uid"] == "uid-search"
    assert job["metadata"]["labels"] == {
        "gputopo.io/ensemble": "search",
        "gputopo.io/ensemble-member": "a",
    }
    assert job["spec"]["gpusPerReplica"] == cluster.of("a")["gpus"]


def test_next_decision_writes_nothing() -> None:
    cluster = five()
    cluster.run_on()
    writes = cluster.decide()
    assert writes.status is None
    assert (writes.create, writes.delete, writes.events) == ({}, (), ())
    assert writes.recheck_after_seconds == 10


def test_a_member_that_ends_early_frees_its_gpus_for_the_next_flotilla() -> None:
    members = [member(name, {2: 190}, steps=1000) for name in "abc"]
    cluster = EnsembleCluster({"n1": 4}, ensemble(*members))
    cluster.run_on()
    assert cluster.phases() == {"a": "Running", "b": "Running", "c": "Waiting"}
    assert cluster.of("c")["message"] == "waits in flotilla 2 for 2 free GPUs on one node"
    cluster.end("a")
    cluster.run_on()
    assert cluster.phases() == {"a": "Succeeded", "b": "Running", "c": "Running"}
    assert cluster.of("a")["progressPercent"] == 100
    assert cluster.status["plan"]["reason"] == "a ended"
    assert [cluster.of(name)["flotilla"] for name in "abc"] == [1, 1, 2]


def test_ensemble_succeeds_when_all_members_have() -> None:
    cluster = five()
    cluster.run_on()
    for name in "abcde":
        cluster.end(name)
    cluster.run_on()
    assert cluster.status["phase"] == "Succeeded"
    assert cluster.condition("Complete")["message"] == "5 members succeeded"
    assert cluster.events.count("Completed: 5 members succeeded") == 1
    assert cluster.status["gpus"] == 0
    assert cluster.decide().recheck_after_seconds is None


def test_a_member_fails_for_good_and_the_others_go_on() -> None:
    cluster = five()
    cluster.run_on()
    cluster.end("b", succeeded=False)
    cluster.run_on()
    assert cluster.phases() == {**dict.fromkeys("acde", "Running"), "b": "Failed"}
    assert cluster.condition("Failed")["status"] == "False"
    text = "1 of 5 members failed: b: BackoffLimitExceeded: limit exceeded; the others go on"
    assert cluster.condition("Failed")["message"] == text
    for name in "acde":
        cluster.end(name)
    cluster.run_on()
    assert cluster.status["phase"] == "Failed"
    assert cluster.condition("Failed")["reason"] == "MembersFailed"
    assert "MemberFailed: b: BackoffLimitExceeded: limit exceeded" in cluster.events


def test_ended_member_does_not_run_again_if_its_job_is_deleted() -> None:
    cluster = five()
    cluster.run_on()
    cluster.end("a")
    cluster.run_on()
    del cluster.jobs["search-a"]
    cluster.run_on()
    assert cluster.phases()["a"] == "Succeeded"
    assert "search-a" not in cluster.jobs


def test_running_member_whose_job_a_user_deletes_runs_again_after_its_pod_has_ended() -> None:
    cluster = five()
    cluster.run_on()
    cluster.jobs["search-a"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.decide()
    assert cluster.phases()["a"] == "Stopping"
    cluster.run_on()
    assert cluster.phases()["a"] == "Running"
    assert len(cluster.starts["search-a"]) == 2


@pytest.mark.parametrize("writes", range(7))
def test_operator_killed_at_any_write_follows_the_same_plan(writes: int) -> None:
    expected, cluster = five(), five()
    expected.run_on()
    cluster.decide(writes)
    cluster.run_on()
    assert cluster.gpus() == expected.gpus()
    assert cluster.running() == expected.running()
    assert all(len(starts) == 1 for starts in cluster.starts.values())


def test_ensemble_uses_no_more_than_its_limit() -> None:
    cluster = five(maxGPUs=3, maxGPUsPerMember=2)
    cluster.run_on()
    assert sum(gpus for _, gpus in cluster.running().values()) <= 3
    assert max(gpus for _, gpus in cluster.running().values()) <= 2


def test_deleted_ensemble_writes_nothing() -> None:
    cluster = five()
    cluster.raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert cluster.decide().status is None
    assert cluster.jobs == {}


def grown(**spec: object) -> EnsembleCluster:
    """Return a member that gets the GPUs of another one, with an operator that is killed then."""
    members = [member(name, {1: 100, 2: 190, 4: 360}, steps=steps) for name, steps in STEPS.items()]
    cluster = EnsembleCluster({"n1": 4}, ensemble(*members, restartSeconds=0, **spec))
    cluster.run_on(20)
    cluster.end("b")
    cluster.decide(writes=1)
    return cluster


def test_restart_is_carried_out_if_the_operator_was_killed_after_it_had_stored_the_plan() -> None:
    cluster = grown(restarts="FromCheckpoint")
    assert cluster.gpus()["a"] == 4
    assert cluster.running() == {"search-a": ("n1", 2)}
    cluster.run_on()
    assert cluster.running() == {"search-a": ("n1", 4)}
    assert "MemberStopped: a: continues with 4 GPUs instead of 2" in cluster.events


def test_running_member_without_checkpoints_keeps_its_gpus_and_the_status_has_them() -> None:
    cluster = grown()
    cluster.of("a").update({"gpus": 4, "plannedMicroItemsPerSecond": 360_000_000})
    cluster.run_on()
    assert cluster.status["plan"]["reason"] == "b ended"
    assert cluster.running() == {"search-a": ("n1", 2)}
    assert cluster.gpus()["a"] == 2
    assert cluster.of("a")["plannedMicroItemsPerSecond"] == 190_000_000


def test_member_that_was_planned_again_before_it_had_a_pod_starts_with_the_new_plan() -> None:
    cluster = EnsembleCluster({"n1": 4, "n2": 2}, ensemble(member("a", {2: 60, 4: 100})))
    cluster.decide()
    cluster.others["n1"] = 3
    cluster.run_on()
    cluster.now += timedelta(seconds=60)
    cluster.decide(writes=1)
    assert cluster.gpus() == {"a": 2}
    cluster.others["n1"] = 0
    assert len(cluster.decide().delete) == 1
