"""Rates, quantiles and objects of the scale run."""

import pytest

from gputopo import catalogue
from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.api.topology import from_spec
from gputopo.api.v1alpha1 import GPUTopologySpec, GPUTopologyStatus
from scaletest import measure, objects, report
from scaletest.rounds import Round, given_twice, gpus_by_node

PODS = "10 equal of 1"


def _round(
    scheduler: str, per_second: float, *, turn: int = 0, bound: int = 10, twice: int = 0
) -> Round:
    return Round(
        scheduler=scheduler,
        turn=turn,
        pods=PODS,
        bound=bound,
        per_second=per_second,
        latencies={},
        processor_ms={"etcd": 1.0},
        twice=twice,
        nodes=2,
        partly=1,
    )


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


def test_processes_are_distinguished_by_their_command_lines() -> None:
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


def test_nodes_in_use_and_gpus_given_twice_are_read_from_the_pods() -> None:
    placed = [objects.pod(f"p{number}", gpus, "any") for number, gpus in enumerate((1, 2, 8, 4))]
    for pod, node in zip(placed, ("a", "a", "b"), strict=False):
        pod["spec"]["nodeName"] = node
    assert gpus_by_node(placed) == {"a": 3, "b": 8}, "the last one waits"
    for pod, uuids in zip(placed, (["x"], ["x", "y"], ["z"] * 7), strict=False):
        annotation = GpusAnnotation(uid="u", node="n", generation=1, containers={"main": uuids})
        pod["metadata"]["annotations"] = {GPUS_ANNOTATION: annotation.dump()}
    assert given_twice(placed[:2]) == 1, "x"
    assert given_twice(placed[3:]) == 1, "it has none"


def test_a_slow_or_wrong_scheduler_is_reported() -> None:
    plain = _round("plain kube-scheduler", 100.0)
    wanted = {PODS: 10}
    assert report.ratio([plain, _round("gputopo", 61.0)], "gputopo", PODS) == 0.61
    assert report.shortcomings([plain, _round("gputopo", 61.0)], wanted) == []
    assert report.shortcomings([plain, _round("gputopo", 59.0)], wanted) == [
        "gputopo, 10 equal of 1: 0.59 of plain, goal 0.6"
    ]
    assert len(report.shortcomings([plain, _round("gputopo", 70.0, bound=9)], wanted)) == 1
    assert len(report.shortcomings([plain, _round("gputopo", 70.0, twice=1)], wanted)) == 1


def test_turns_are_compared_in_pairs_and_the_median_counts() -> None:
    plain = [_round("plain kube-scheduler", r, turn=t) for t, r in enumerate((100.0, 50.0, 80.0))]
    ours = [_round("gputopo", r, turn=t) for t, r in enumerate((60.0, 35.0, 64.0))]
    rounds = [plain[0], ours[0], ours[1], plain[1], plain[2], ours[2]]
    assert report.ratio(rounds, "gputopo", PODS) == 0.7, "of 0.6, 0.7 and 0.8"
    assert report.medians(rounds) == [plain[2], ours[0]]
    twice = [*rounds, _round("gputopo, 2 replicas", 40.0, turn=3)]
    assert report.ratio(twice, "gputopo, 2 replicas", PODS) == 0.5, "of the median, 80"
    (shown,) = (line for line in report.table(rounds) if "35.0-64.0" in line)
    assert shown.split()[-8:-3] == ["60.0", "35.0-64.0", "0.70", "2", "1"]


def test_a_plain_scheduler_that_bound_nothing_is_no_measure() -> None:
    rounds = [_round("plain kube-scheduler", 0.0, bound=0), _round("gputopo", 50.0)]
    assert report.ratio(rounds, "gputopo", PODS) == 0.0


def test_table_has_a_line_for_each_round_in_both_halves() -> None:
    lines = list(report.table([_round("plain kube-scheduler", 100.0), _round("gputopo", 61.0)]))
    assert sum(line.startswith("gputopo") for line in lines) == 2
    document = report.document([_round("plain kube-scheduler", 100.0)], ["slow"])
    assert document["missed"] == ["slow"]
    assert document["ratios"] == [{"scheduler": "plain kube-scheduler", "pods": PODS, "ratio": 1.0}]
