"""A member whose pod cannot be created gives its GPUs back, and is tried again later."""

from datetime import timedelta
from itertools import pairwise

import pytest

from gputopo_kube.document import ObjectKey
from gputopo_operator.model.ensembles import MemberJob
from support.operator.ensembles import EnsembleCluster, ensemble, member

QUOTA = "exceeded quota: none"


def blocked(*names: str, gpus: int = 4) -> EnsembleCluster:
    """Return a node, and members a and b of which each needs all its GPUs."""
    members = [member(name, {gpus: 100}, steps=100_000) for name in "ab"]
    cluster = EnsembleCluster({"n1": gpus}, ensemble(*members))
    cluster.blocked = dict.fromkeys(names, QUOTA)
    return cluster


def first_started(cluster: EnsembleCluster) -> str:
    cluster.decide()
    (name,) = cluster.jobs
    return name.removeprefix("search-")


def test_member_whose_pod_cannot_be_created_gives_its_gpus_to_the_next() -> None:
    cluster = blocked("a", "b")
    first = first_started(cluster)
    (other,) = {*"ab"} - {first}
    del cluster.blocked[other]
    cluster.run_on()
    assert cluster.running() == {f"search-{other}": ("n1", 4)}
    assert cluster.phases() == {first: "Waiting", other: "Running"}
    status = cluster.of(first)
    assert (status["podError"], status["failedStarts"]) == (QUOTA, 1)
    assert status["notBefore"] in status["message"]
    planned = cluster.condition("Planned")
    assert (planned["status"], planned["reason"]) == ("False", "PodNotCreated")
    assert QUOTA in planned["message"]
    assert any(QUOTA in event for event in cluster.events if event.startswith("MemberStopped"))


def test_retries_take_less_and_less_time() -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {4: 100}, steps=10)))
    cluster.blocked["a"] = QUOTA
    starts, plans = [], set[str]()
    for _ in range(2 * 3600 // 10):
        plan = cluster.decide()
        cluster.work()
        plans.add(cluster.status["plan"]["time"])
        starts += [cluster.now] * len(plan.create)
        cluster.now += timedelta(seconds=10)
    waits = [(b - a).total_seconds() for a, b in pairwise(starts)]
    assert len(waits) == 7
    for wait, least in zip(waits, [60, 120, 240, 480, 960, 1800, 1800], strict=True):
        assert least <= wait <= least + 40
    assert len(plans) <= 2 * len(starts), "it is not planned in each pass"


def test_pod_that_is_created_ends_the_failures() -> None:
    cluster = blocked("a", "b")
    first = first_started(cluster)
    cluster.run_on()
    cluster.blocked.clear()
    cluster.now += timedelta(seconds=120)
    cluster.run_on()
    assert set(cluster.phases().values()) == {"Running", "Waiting"}
    for name in "ab":
        if cluster.phases()[name] == "Running":
            assert "failedStarts" not in cluster.of(name)
    assert first in cluster.phases()
    assert cluster.condition("Planned")["reason"] in {"Planned", "MembersDoNotFit"}


def test_operator_killed_after_the_status_counts_the_start_once() -> None:
    cluster = blocked("a")
    assert first_started(cluster) == "a"
    cluster.work()
    cluster.decide(writes=1)
    before = cluster.of("a")
    assert before["failedStarts"] == 1
    assert "search-a" in cluster.jobs
    cluster.now += timedelta(seconds=10)
    cluster.decide()
    cluster.work()
    assert "search-a" not in cluster.jobs
    assert cluster.of("a")["failedStarts"] == 1
    assert cluster.of("a")["notBefore"] == before["notBefore"]


@pytest.mark.parametrize(("error", "gpus"), [("", 0), (QUOTA, 4)])
def test_members_of_other_ensembles_hold_gpus_only_while_their_pods_may_be_created(
    error: str, gpus: int
) -> None:
    cluster = EnsembleCluster({"n1": 4}, ensemble(member("a", {4: 100})))
    job = MemberJob("other-x", "uid-x", "uid-other", False, 4, "n1", pod_error=error)
    cluster.other_ensembles = {ObjectKey("default", "other"): {"x": job}}
    cluster.decide()
    assert sum(each["spec"]["gpusPerReplica"] for each in cluster.jobs.values()) == gpus
