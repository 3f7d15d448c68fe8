"""Ensembles when nodes go away, other pods take GPUs, and rates are wrong."""

from datetime import timedelta
from typing import Any

from gputopo.api.profile import ScalingFact
from support.operator.ensembles import EnsembleCluster, condition, ensemble, member


def pair(**spec: Any) -> EnsembleCluster:
    """Return two nodes of 4 GPUs, and two members of which each fills one node."""
    members = [member(name, {2: 60, 4: 100}, steps=1000) for name in "ab"]
    return EnsembleCluster({"n1": 4, "n2": 4}, ensemble(*members, **spec))


def wait(cluster: EnsembleCluster, seconds: int = 60) -> None:
    cluster.now += timedelta(seconds=seconds)
    cluster.run_on()


def test_member_of_a_lost_node_does_not_run_twice_and_runs_when_its_pod_has_ended() -> None:
    cluster = pair(maxGPUsPerMember=2)
    cluster.run_on()
    lost = cluster.of("a")["node"]
    cluster.switch_off(lost)
    wait(cluster)
    on_lost = [name for name in "ab" if cluster.running()[f"search-{name}"][0] == lost]
    for name in on_lost:
        assert cluster.phases()[name] == "Stopping"
        assert f"on {lost} is ending" in cluster.of(name)["message"]
        assert len(cluster.starts[f"search-{name}"]) == 1
    cluster.switch_on(lost)
    wait(cluster)
    assert set(cluster.phases().values()) == {"Running"}
    assert [len(cluster.starts[f"search-{name}"]) for name in on_lost] == [2] * len(on_lost)


def test_members_on_other_nodes_go_on_when_a_node_is_lost() -> None:
    cluster = pair()
    cluster.run_on()
    assert {node for node, _ in cluster.running().values()} == {"n1", "n2"}
    cluster.switch_off("n2")
    wait(cluster)
    (lost,) = [name for name in "ab" if cluster.running()[f"search-{name}"][0] == "n2"]
    (other,) = {*"ab"} - {lost}
    assert cluster.phases() == {lost: "Stopping", other: "Running"}
    cluster.end(other)
    for pod in [*cluster.pods]:  # an administrator deletes the pod by force
        del cluster.pods[pod]
    wait(cluster)
    assert cluster.phases() == {lost: "Running", other: "Succeeded"}
    assert cluster.running()[f"search-{lost}"] == ("n1", 4)


def test_plan_shrinks_if_other_pods_have_gpus_and_states_which() -> None:
    cluster = EnsembleCluster({"n1": 8}, ensemble(member("a", {2: 60, 4: 100, 8: 180})))
    cluster.others["n1"] = 3
    cluster.run_on()
    assert cluster.gpus() == {"a": 5}
    assert cluster.of("a")["phase"] == "Running"


def test_member_waits_if_other_pods_have_its_gpus_and_starts_when_they_end() -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {4: 100})))
    cluster.others["n1"] = 1
    cluster.run_on()
    assert cluster.phases() == {"a": "Waiting"}
    planned = cluster.condition("Planned")
    assert planned["reason"] == "MembersDoNotFit"
    text = "a: needs at least 4 GPUs; limited to 3 GPUs, those of the largest node: a member has"
    assert planned["message"] == f"{text} one pod; usable GPUs: n1: 3"
    cluster.others["n1"] = 0
    cluster.run_on()
    assert cluster.phases() == {"a": "Running"}
    assert cluster.condition("Planned")["status"] == "True"


def test_member_whose_gpus_were_taken_before_it_started_is_planned_again() -> None:
    cluster = EnsembleCluster({"n1": 4, "n2": 2}, ensemble(member("a", {2: 60, 4: 100})))
    cluster.decide()
    cluster.others["n1"] = 3
    cluster.run_on()
    assert cluster.phases() == {"a": "Starting"}
    assert cluster.running() == {}
    wait(cluster)
    assert cluster.running() == {"search-a": ("n2", 2)}
    assert "MemberStopped: a: node n1 has 1 of 4 GPUs for it" in cluster.events
    reason = "a does not start: node n1 has 1 of 4 GPUs for it"
    assert any(event.startswith(f"EnsembleReplanned: {reason}") for event in cluster.events)


def test_member_larger_than_any_node_is_capped_and_the_condition_says_so() -> None:
    members = (member("a", {1: 100}), member("b", {1: 10, 2: 20, 4: 40, 8: 80}))
    cluster = EnsembleCluster({"n1": 4, "n2": 4}, ensemble(*members))
    cluster.run_on()
    assert cluster.gpus() == {"a": 1, "b": 4}
    limited = cluster.condition("Limited")
    text = "b: limited to 4 GPUs, those of the largest node: a member has one pod"
    assert (limited["status"], limited["message"]) == ("True", text)


def test_wrong_rate_is_planned_again_and_reported() -> None:
    members = [member(name, {1: 100, 2: 200, 4: 400}, steps=100_000) for name in "abcd"]
    cluster = EnsembleCluster({"n1": 4}, ensemble(*members))
    cluster.run_on()
    cluster.measured["a"] = 95
    cluster.run_on()
    assert cluster.of("a")["measuredMicroItemsPerSecond"] == 95_000_000
    assert not any(event.startswith("RateDiffers") for event in cluster.events)
    cluster.measured["a"] = 50
    cluster.run_on()
    text = "RateDiffers: a makes 50 items per second with 1 GPUs, planned 100 (-50 %)"
    assert cluster.events.count(text) == 1
    assert cluster.of("a")["plannedMicroItemsPerSecond"] == 50_000_000
    assert cluster.status["spreadPercent"] == 50
    del cluster.measured["a"]
    cluster.run_on()
    assert cluster.of("a")["plannedMicroItemsPerSecond"] == 50_000_000


def test_member_restarts_with_more_gpus_if_the_template_allows_it() -> None:
    members = [member(name, {1: 100, 2: 190, 4: 370}, steps=4_000_000) for name in "ab"]
    spec = ensemble(*members, restarts="FromCheckpoint", restartSeconds=60)
    cluster = EnsembleCluster({"n1": 4}, spec)
    cluster.run_on()
    assert cluster.gpus() == {"a": 2, "b": 2}
    cluster.measured |= {"a": 190, "b": 190}
    wait(cluster, 100)
    done = cluster.of("b")["itemsDone"]
    assert 190 * 80 <= done <= 190 * 120  # items are counted each 30 s
    cluster.end("a")
    cluster.run_on(20)
    assert cluster.running() == {"search-b": ("n1", 4)}
    assert cluster.starts["search-b"] == [2, 4]
    assert cluster.of("b")["earlierItems"] >= done
    assert "MemberStopped: b: continues with 4 GPUs instead of 2" in cluster.events


def test_member_keeps_its_gpus_without_checkpoints() -> None:
    members = [member(name, {1: 100, 2: 190, 4: 370}, steps=4_000_000) for name in "ab"]
    cluster = EnsembleCluster({"n1": 4}, ensemble(*members))
    cluster.run_on()
    cluster.end("a")
    cluster.run_on()
    assert cluster.starts["search-b"] == [2]


def test_pod_of_a_new_node_begins_again_without_checkpoints() -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {4: 100}, steps=10_000)))
    cluster.run_on()
    cluster.measured["a"] = 100
    wait(cluster, 80)
    assert cluster.of("a")["progressPercent"] >= 50
    cluster.pods.clear()
    cluster.run_on()
    assert cluster.of("a")["itemsDone"] < 2000


def test_member_that_restarts_keeps_its_corrected_rate() -> None:
    members = [member(name, {2: 60, 4: 110}, steps=4_000_000) for name in "ab"]
    cluster = EnsembleCluster({"n1": 4}, ensemble(*members, restarts="FromCheckpoint"))
    cluster.run_on()
    cluster.measured |= {"a": 60, "b": 6}
    cluster.run_on()
    del cluster.measured["b"]
    cluster.end("a")
    for _ in range(6):
        cluster.decide()
        cluster.work()
    assert cluster.of("b")["gpus"] == 4
    assert cluster.of("b")["plannedMicroItemsPerSecond"] == 11_000_000
    assert cluster.starts["search-b"] == [2, 4]
    assert not any("rates of b are known now" in event for event in cluster.events)


def test_suspended_ensemble_has_no_jobs_and_goes_on_when_it_is_resumed() -> None:
    cluster = pair()
    cluster.run_on()
    cluster.suspend(suspended=True)
    cluster.run_on()
    assert cluster.jobs == {}
    assert cluster.status["phase"] == "Suspended"
    assert cluster.phases() == {"a": "Waiting", "b": "Waiting"}
    assert "MemberStopped: a: the ensemble was suspended" in cluster.events
    cluster.suspend(suspended=False)
    cluster.run_on()
    assert cluster.status["plan"]["reason"] == "the ensemble was resumed"
    assert cluster.phases() == {"a": "Running", "b": "Running"}


def test_unknown_rates_get_one_gpu_until_they_are_measured() -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a"), member("b", {1: 10, 2: 20})))
    cluster.run_on()
    assert cluster.gpus() == {"a": 1, "b": 2}
    known = cluster.condition("RatesKnown")
    assert (known["status"], known["reason"]) == ("False", "RatesUnknown")
    assert known["message"].startswith("a: no rates are known, so each gets one GPU")
    cluster.measured["a"] = 12
    cluster.run_on()
    assert cluster.condition("RatesKnown")["status"] == "True"
    assert cluster.of("a")["plannedMicroItemsPerSecond"] == 12_000_000
    assert cluster.status["plan"]["reason"] == "rates of a are known now"


def test_rates_without_that_of_the_running_member_are_completed_when_it_is_measured() -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", profile="resnet")))
    cluster.run_on()
    assert cluster.gpus() == {"a": 1}
    cluster.facts["resnet"] = [
        ScalingFact(gpus=gpus, micro_steps_per_second=rate, ci_permille=20, extrapolated=False)
        for gpus, rate in ((2, 20_000_000), (4, 36_000_000))
    ]
    cluster.run_on()
    assert cluster.gpus() == {"a": 1}
    assert "plannedMicroItemsPerSecond" not in cluster.of("a")
    cluster.change(maxGPUs=3)
    cluster.run_on()
    assert cluster.status["plan"]["reason"] == "the spec was changed"
    assert cluster.starts["search-a"] == [1]
    assert "plannedMicroItemsPerSecond" not in cluster.of("a")
    cluster.measured["a"] = 11
    cluster.run_on()
    assert cluster.of("a")["plannedMicroItemsPerSecond"] == 11_000_000


def test_progress_of_a_member_with_epochs() -> None:
    trained = member("a", {4: 100}, epochs=4)
    cluster = EnsembleCluster({"n1": 4}, ensemble(trained, itemsPerEpoch=2500))
    cluster.run_on()
    cluster.measured["a"] = 100
    wait(cluster, 80)
    assert cluster.of("a")["itemsDone"] >= 5000
    assert cluster.of("a")["progressPercent"] == cluster.of("a")["itemsDone"] // 100


def test_member_whose_job_the_scheduler_cannot_place_states_why() -> None:
    cluster = pair()
    cluster.decide()
    message = "0/2 nodes are available: 2 Insufficient memory."
    cluster.jobs["search-a"]["status"] = {
        "conditions": [
            condition("Accepted", "True", "JobCreated"),
            condition("Placed", "False", "Unschedulable", message),
        ]
    }
    cluster.decide()
    assert cluster.of("a")["message"] == message


def test_member_whose_job_is_rejected_for_good_has_failed() -> None:
    cluster = pair()
    cluster.decide()
    conditions = [condition("Accepted", "False", "SpecRefused", "no container")]
    cluster.jobs["search-a"]["status"] = {"phase": "Refused", "conditions": conditions}
    cluster.decide()
    assert cluster.phases()["a"] == "Failed"
    assert cluster.of("a")["message"] == "SpecRefused: no container"


def test_changed_limits_are_planned_again() -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {1: 10}), maxGPUs=1))
    cluster.run_on()
    cluster.change(maxGPUs=2)
    cluster.run_on()
    assert cluster.status["plan"]["reason"] == "the spec was changed"
    assert cluster.status["observedGeneration"] == 2
