"""The items that members have processed, as the operator estimates them."""

from datetime import timedelta

from support.operator.ensembles import EnsembleCluster, ensemble, member


def measured(rate: float) -> EnsembleCluster:
    """Return a member whose pod has just started, with a measured rate."""
    cluster = EnsembleCluster({"n1": 1}, ensemble(member("a", {1: 100}, steps=1_000_000)))
    cluster.decide()
    cluster.work()
    cluster.measured["a"] = rate
    return cluster


def after(cluster: EnsembleCluster, seconds: int) -> int:
    cluster.now += timedelta(seconds=seconds)
    cluster.decide()
    done: int = cluster.of("a")["itemsDone"]
    return done


def test_a_lower_rate_does_not_reduce_the_items() -> None:
    cluster = measured(100)
    assert after(cluster, 7200) == 720_000
    cluster.measured["a"] = 50
    assert after(cluster, 30) == 721_500
    assert after(cluster, 60) == 724_500


def test_items_until_the_first_measurement_are_counted_with_its_rate() -> None:
    cluster = measured(100)
    del cluster.measured["a"]
    assert after(cluster, 120) == 0
    cluster.measured["a"] = 10
    assert after(cluster, 30) == 1500


def test_status_is_written_at_most_each_half_minute_for_the_items() -> None:
    cluster = measured(100)
    after(cluster, 120)
    writes = []
    for _ in range(60):
        cluster.now += timedelta(seconds=1)
        writes.append(cluster.decide().status is not None)
    assert sum(writes) == 2


def test_items_of_an_operator_that_did_not_store_their_time_are_not_counted_twice() -> None:
    cluster = measured(100)
    after(cluster, 600)
    del cluster.of("a")["itemsCounted"]
    assert after(cluster, 1) == 60_000
    assert after(cluster, 29) == 63_000


def test_pod_that_started_after_the_last_count_has_no_items_yet() -> None:
    cluster = measured(100)
    cluster.now += timedelta(seconds=40)
    for pod in cluster.pods.values():
        pod["status"]["startTime"] = "2026-01-01T00:00:35Z"
    assert after(cluster, 0) == 0
    assert after(cluster, 20) == 2500
