"""Rates, quantiles and objects of the scale run."""

import pytest

from gputopo.api.v1alpha1 import GPUTopologySpec, GPUTopologyStatus
from gputopo.topology import catalogue
from gputopo.topology.published import from_spec
from scaletest import measure, objects, report
from scaletest.rounds import Round


def _round(scheduler: str, per_second: float, *, bound: int = 10, twice: int = 0) -> Round:
    return Round(scheduler, "10 equal of 1", bound, per_second, {}, {"etcd": 1.0}, twice)


def test_rate_counts_the_gaps_between_bindings() -> None:
    assert measure.rate([10.0, 10.5, 11.0]) == 2.0
    assert measure.rate([10.0]) == 0.0


def test_quantiles_of_samples_and_of_a_histogram() -> None:
    assert measure.of_samples([float(n) for n in range(100)]) == measure.Latency(50.0, 99.0)
    name = "gputopo_extender_request_duration_seconds_bucket"
    lines = [
        f'{name}{{le="0.001",outcome="{outcome}",verb="bind"}} {low}\n'
        f'{name}{{le="0.002",outcome="{outcome}",verb="bind"}} {high}\n'
        f'{name}{{le="+Inf",outcome="{outcome}",verb="bind"}} {high}'
        for outcome, low, high in (("ok", 10.0, 90.0), ("error", 0.0, 10.0))
    ]
    (bind,) = measure.of_buckets(measure.buckets("\n".join(lines))).values()
    assert bind.p50 == pytest.approx(1.0 + 40 / 90)
    assert bind.p99 == pytest.approx(1.0 + 89 / 90)


def test_processes_are_told_apart_by_their_command_lines() -> None:
    assert measure.part_of(["/cache/bin/kube-apiserver", "--secure-port=6443"]) == "kube-apiserver"
    assert measure.part_of(["python", "-m", "scaletest.nothing", "ca"]) == "do-nothing extender"
    assert measure.part_of(["python", "-m", "scaletest"]) == "client"
    assert measure.part_of(["python", "/venv/bin/gputopo-extender"]) == "extender"
    assert measure.part_of(["bash"]) is None


def test_a_processor_is_busy_when_it_neither_idles_nor_waits() -> None:
    assert measure.busy_ticks("cpu  100 20 3 5000 700 1 2 9 0 0\ncpu0 1 2 3 4 5 6 7") == 126


def test_simulated_node_has_a_topology_that_the_extender_can_read() -> None:
    body, status = objects.topology("scale-7", "dgx-a100")
    topology = from_spec(GPUTopologySpec.model_validate(body["spec"]))
    assert topology.fingerprint == catalogue.named("dgx-a100").fingerprint
    read = GPUTopologyStatus.model_validate(status["status"])
    assert {gpu.uuid for gpu in read.gpus} == {gpu.uuid for gpu in topology.gpus}
    assert all(gpu.healthy and gpu.pod_uid is None for gpu in read.gpus)
    other, _ = objects.topology("scale-8", "dgx-a100")
    assert other["spec"]["gpus"][0]["uuid"] != body["spec"]["gpus"][0]["uuid"]


def test_pods_fit_simulated_nodes_only() -> None:
    node, pod = objects.node("scale-1"), objects.pod("one", 2, "scale-plain")
    assert pod["spec"]["nodeSelector"].items() <= node["metadata"]["labels"].items()
    assert "kubernetes.io/os" not in node["metadata"]["labels"], "our DaemonSet would come"


def test_sizes_are_all_one_or_drawn_by_the_seed() -> None:
    assert objects.sizes(3, mixed=False, seed=1) == [1, 1, 1]
    mixed = objects.sizes(500, mixed=True, seed=1)
    assert set(mixed) == set(range(1, 9))
    assert mixed == objects.sizes(500, mixed=True, seed=1)


def test_ratio_is_to_the_first_scheduler_and_a_slow_or_wrong_one_is_told() -> None:
    plain = _round("plain kube-scheduler", 100.0)
    assert report.ratio([plain, _round("gputopo", 61.0)], _round("gputopo", 61.0)) == 0.61
    wanted = {"10 equal of 1": 10}
    assert report.shortcomings([plain, _round("gputopo", 61.0)], wanted) == []
    assert report.shortcomings([plain, _round("gputopo", 59.0)], wanted) == [
        "gputopo, 10 equal of 1: 0.59 of plain, goal 0.6"
    ]
    assert len(report.shortcomings([plain, _round("gputopo", 70.0, bound=9)], wanted)) == 1
    assert len(report.shortcomings([plain, _round("gputopo", 70.0, twice=1)], wanted)) == 1


def test_of_several_rounds_the_median_counts_whichever_came_first() -> None:
    plain = [_round("plain kube-scheduler", rate) for rate in (80.0, 120.0, 100.0)]
    ours = [_round("gputopo", rate) for rate in (90.0, 30.0, 60.0)]
    taken_in_turns = [each for pair in zip(plain, ours, strict=True) for each in pair]
    assert report.medians(taken_in_turns) == [plain[2], ours[2]]
    assert report.ratio(taken_in_turns, ours[0]) == 0.9
    assert report.shortcomings(taken_in_turns, {"10 equal of 1": 10}) == []
    assert report.medians(ours[:2]) == [ours[1]], "the lower one of two"
    shown = [line for line in report.table(taken_in_turns) if "30.0-90.0" in line]
    assert len(shown) == 1
    assert " 60.0 " in shown[0]


def test_table_has_a_line_for_each_round_in_both_halves() -> None:
    lines = list(report.table([_round("plain kube-scheduler", 100.0), _round("gputopo", 61.0)]))
    assert sum(line.startswith("gputopo") for line in lines) == 2
    assert report.document([_round("gputopo", 61.0)], [])["missed"] == []
