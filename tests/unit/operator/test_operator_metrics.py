"""The metrics of the operator."""

from gputopo_kube.document import ObjectKey
from gputopo_operator.metrics import OperatorLoop, OperatorMetrics
from gputopo_operator.model.jobs import FailureKind
from gputopo_operator.sizing_metrics import PodFigures


def _jobs(metrics: OperatorMetrics, phase: str) -> float | None:
    return metrics.registry.get_sample_value("gputopo_operator_gpujobs", {"phase": phase})


def test_gpujob_counts_in_one_phase_until_it_is_deleted() -> None:
    metrics, key = OperatorMetrics(), ObjectKey("default", "train")
    metrics.set_job(key, "Pending")
    metrics.set_job(key, "Pending")
    metrics.set_job(key, "Running")
    assert (_jobs(metrics, "Pending"), _jobs(metrics, "Running")) == (0, 1)
    metrics.drop_job(key)
    metrics.drop_job(key)
    assert _jobs(metrics, "Running") == 0


def test_throughput_of_a_job_is_served_while_it_is_known() -> None:
    metrics, key = OperatorMetrics(), ObjectKey("default", "train")

    def served() -> float | None:
        labels = {"namespace": "default", "name": "train"}
        return metrics.registry.get_sample_value("gputopo_job_steps_per_second", labels)

    for rate in (12.4, 0.0, None, 3.0):
        metrics.set_job(key, "Running", rate)
        assert served() == rate
    metrics.drop_job(key)
    assert served() is None


def test_failures_are_counted_by_cause() -> None:
    metrics = OperatorMetrics()
    metrics.count_failure(FailureKind.ADMISSION)
    name = "gputopo_operator_pod_failures_total"
    assert metrics.registry.get_sample_value(name, {"kind": "admission"}) == 1
    assert metrics.registry.get_sample_value(name, {"kind": "application"}) == 0


def test_both_outcomes_of_a_reconciliation_are_0_at_the_start() -> None:
    shown = OperatorMetrics().registry.get_sample_value
    for outcome in ("success", "error"):
        name = "gputopo_operator_reconcile_duration_seconds_count"
        assert shown(name, {"outcome": outcome}) == 0


def test_failures_of_each_loop_are_0_at_the_start() -> None:
    metrics = OperatorMetrics()
    metrics.error_counter(OperatorLoop.QUEUE)()
    name = "gputopo_operator_errors_total"
    counts = {
        loop: metrics.registry.get_sample_value(name, {"loop": loop}) for loop in OperatorLoop
    }
    assert counts == dict.fromkeys(OperatorLoop, 0) | {OperatorLoop.QUEUE: 1}


def test_lengths_of_the_queues_are_read_at_each_scrape() -> None:
    metrics, jobs, profiles = OperatorMetrics(), ["a"], ["a"]
    metrics.watch_queues(jobs.__len__, profiles.__len__)
    jobs.append("b")
    profiles.clear()
    assert metrics.registry.get_sample_value("gputopo_operator_queue_length") == 2
    assert metrics.registry.get_sample_value("gputopo_operator_profile_queue_length") == 0


def test_waiting_jobs_and_waits_are_shown() -> None:
    now = [1000.0]
    metrics = OperatorMetrics(lambda: now[0])
    metrics.set_waiting_jobs(2, 940)
    metrics.observe_wait(30)
    sample = metrics.registry.get_sample_value
    assert sample("gputopo_operator_waiting_gpujobs") == 2
    assert sample("gputopo_operator_longest_wait_seconds") == 60
    now[0] += 5
    assert sample("gputopo_operator_longest_wait_seconds") == 65
    metrics.set_waiting_jobs(0, None)
    assert sample("gputopo_operator_longest_wait_seconds") == 0
    assert sample("gputopo_operator_wait_seconds_bucket", {"le": "60.0"}) == 1
    assert sample("gputopo_operator_wait_seconds_bucket", {"le": "10.0"}) == 0


def test_figures_of_a_sized_pod_are_shown_until_it_leaves_its_node() -> None:
    metrics, a, b = OperatorMetrics(), ObjectKey("default", "a"), ObjectKey("ml", "b")

    def shown(name: str, key: ObjectKey) -> float | None:
        labels = {"namespace": key.namespace, "pod": key.name}
        return metrics.registry.get_sample_value(f"gputopo_operator_sized_pod_{name}", labels)

    metrics.sizing.set_pods("n1", {a: PodFigures(1.5, 2**30, 0.31), b: PodFigures(2)})
    assert [shown(name, a) for name in ("cpus", "memory_bytes", "gain_ratio")] == [1.5, 2**30, 0.31]
    assert [shown(name, b) for name in ("cpus", "memory_bytes", "gain_ratio")] == [2, None, None]
    metrics.sizing.set_pods("n1", {a: PodFigures(4)})
    assert [shown(name, a) for name in ("cpus", "memory_bytes", "gain_ratio")] == [4, None, None]
    assert shown("cpus", b) is None
    metrics.sizing.drop("n1")
    metrics.sizing.drop("n1")
    assert shown("cpus", a) is None


def test_pod_that_replaces_one_of_another_node_keeps_its_figures() -> None:
    """A StatefulSet creates a pod of the same name, and its node may be decided about first."""
    metrics, key = OperatorMetrics(), ObjectKey("default", "a-0")
    metrics.sizing.set_pods("n1", {key: PodFigures(1)})
    metrics.sizing.set_pods("n2", {key: PodFigures(2)})
    metrics.sizing.drop("n1")
    labels = {"namespace": "default", "pod": "a-0"}
    value = metrics.registry.get_sample_value("gputopo_operator_sized_pod_cpus", labels)
    assert value == 2
