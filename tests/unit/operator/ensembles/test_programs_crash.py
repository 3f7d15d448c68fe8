"""A member whose program crashes keeps its GPUJob, so the GPUJob counts the failures."""

from datetime import timedelta

from gputopo.runtime.times import timestamp
from support.operator.ensembles import EnsembleCluster, ensemble, member


def running() -> EnsembleCluster:
    """Return a member that has run for a minute with all GPUs of its node."""
    spec = ensemble(member("a", {1: 100, 2: 190, 4: 360}, steps=100_000))
    cluster = EnsembleCluster({"n1": 4}, spec)
    cluster.run_on()
    cluster.now += timedelta(seconds=60)
    cluster.decide()
    return cluster


def test_crashed_member_keeps_its_job_while_the_agent_reports_its_gpus_as_used() -> None:
    cluster = running()
    for _ in range(8):
        uid = cluster.jobs["search-a"]["metadata"]["uid"]
        cluster.crash("a")
        for _ in range(4):
            writes = cluster.decide()
            assert (writes.delete, cluster.phases()) == ((), {"a": "Starting"})
            cluster.now += timedelta(seconds=12)
        cluster.stale.clear()
        cluster.run_on()
        assert cluster.phases() == {"a": "Running"}
        assert cluster.jobs["search-a"]["metadata"]["uid"] == uid


def test_crashed_member_waits_half_a_minute_if_other_pods_took_its_gpus() -> None:
    cluster = running()
    cluster.crash("a")
    cluster.stale.clear()
    cluster.others["n1"] = 1
    assert cluster.decide().delete == ()
    assert cluster.of("a")["startingSince"] == timestamp(cluster.now)
    cluster.now += timedelta(seconds=29)
    assert cluster.decide().delete == ()
    cluster.now += timedelta(seconds=1)
    assert len(cluster.decide().delete) == 1
    cluster.run_on()
    assert cluster.running() == {"search-a": ("n1", 3)}
    assert "startingSince" not in cluster.of("a")


def test_member_that_starts_again_is_patient_again() -> None:
    cluster = running()
    cluster.jobs["search-a"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.work()
    cluster.decide()
    cluster.others["n1"] = 1
    cluster.decide()
    since = cluster.of("a")["startingSince"]
    cluster.now += timedelta(seconds=29)
    assert cluster.decide().delete == ()
    assert cluster.of("a")["startingSince"] == since
