"""The pure parts of ``tools/learn``, on values."""

from dataclasses import replace
from typing import Any

import pytest

from gputopo.api.measuring import MeasuringRequest, MetricsEndpoint, parse_measuring
from gputopo.api.profile import CpuFact, CpuPoint, GPUProfileStatus, LinkFact
from gputopo.api.request import parse_request
from gputopo.api.v1alpha1 import GPUJobSpec
from learntest import agentcost, cpus, laws, links, manifests, profiles
from learntest.catalogue import EXPERIMENTS
from learntest.judge import Workload
from learntest.manifests import Run
from soaktest.client import Object

TOPOLOGY: Object = {
    "links": [
        {"a": "a", "b": "b", "kind": "NVLink", "ancestor": "NODE", "bandwidthMBps": 50_000},
        {"a": "c", "b": "a", "kind": "PCIe", "ancestor": "SYS", "bandwidthMBps": 12_000},
    ]
}
FACT = LinkFact(
    gpus=2, percent=57, low_percent=50, high_percent=64, samples=8, sensitivity="Sensitive"
)
MEASURING = MeasuringRequest(
    profile="decoder",
    source="Metrics",
    metrics=MetricsEndpoint(9090, "/metrics", "steps_total"),
    targets=("CPUs",),
)
RUN = Run("run-1", laws.plain_law(1), "n1", policy="Weakest", measuring=MEASURING)


@pytest.mark.parametrize("percent", [0.0, 2.0, 60.0, 200.0])
def test_law_is_as_much_slower_on_the_worst_link_as_it_states(percent: float) -> None:
    law = laws.link_law(TOPOLOGY, percent, seed=1)
    assert law["links"] == {"a b": 50_000, "a c": 8_000}
    best, worst = (laws.steps_per_second(law, each) for each in (50_000, 8_000))
    assert best / worst == pytest.approx(1 + percent / 100)


def test_law_that_no_link_allows_is_rejected() -> None:
    with pytest.raises(ValueError, match="percent: 600 is not possible with links of 8000"):
        laws.link_law(TOPOLOGY, 600, seed=1)


def test_workload_has_the_rate_of_the_link_between_its_gpus() -> None:
    workload = Workload("bert", "n1", 60, TOPOLOGY)
    law = workload.law(1)
    assert workload.rate(("c", "a")) == laws.steps_per_second(law, 8_000)
    assert workload.rate(("a", "b")) == pytest.approx(1.6 * workload.rate(("a", "c")))


def test_job_and_pod_of_a_run_request_the_same() -> None:
    spec = GPUJobSpec.model_validate(manifests.job(RUN, "image")["spec"])
    pod = manifests.pod(RUN, "image")
    annotations = pod["metadata"]["annotations"]
    assert parse_measuring(annotations) == MEASURING
    assert (spec.workload.profile, spec.profiling.measure) == ("decoder", ["CPUs"])
    assert spec.profiling.throughput.metrics == "9090/metrics steps_total"
    assert spec.placement.policy == parse_request(annotations).policy == "Weakest"
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "100m", "memory": "256Mi", "gputopo.io/gpu": "2"}


def test_job_and_pod_of_a_run_mount_the_folder_of_the_node() -> None:
    run = replace(RUN, folder="/var/lib/shared")
    job, pod = manifests.job(run, "image"), manifests.pod(run, "image")
    for spec in (job["spec"]["template"]["spec"], pod["spec"]):
        assert spec["volumes"][0]["hostPath"]["path"] == "/var/lib/shared"
        mount = spec["containers"][0]["volumeMounts"][0]
        assert mount == {"name": spec["volumes"][0]["name"], "mountPath": "/var/lib/shared"}
    assert "volumes" not in manifests.pod(RUN, "image")["spec"]


def test_job_that_requests_nothing_has_no_further_fields() -> None:
    spec = manifests.job(Run("run-1", {}, "n1"), "image")["spec"]
    assert set(spec) == {"gpusPerReplica", "template"}


@pytest.mark.parametrize(
    ("fact", "percent", "right"),
    [
        (FACT, 60, True),
        (FACT, 63, False),
        (FACT.model_copy(update={"sensitivity": "Unknown"}), 60, False),
        (FACT.model_copy(update={"percent": 2, "sensitivity": "Insensitive"}), 4, True),
    ],
)
def test_fact_is_right_if_its_class_is_and_its_percentage_is_near(
    fact: LinkFact, percent: float, right: object
) -> None:
    assert profiles.is_right(fact, percent) is right


def test_run_after_which_a_fact_became_and_stayed_right_is_counted() -> None:
    learnt = links.Learnt(60)
    wrong = FACT.model_copy(update={"percent": 40})
    for fact in (None, FACT, wrong, FACT, FACT):
        learnt.add(fact)
    assert (learnt.runs, learnt.decided) == (5, 4)
    assert learnt.facts[0] == "not enough data"
    assert not learnt.is_wrong(None)
    assert not learnt.is_wrong(wrong)
    assert learnt.is_wrong(FACT.model_copy(update={"sensitivity": "Insensitive"}))


def test_facts_are_found_by_number_of_gpus() -> None:
    points = [CpuPoint(milli_cpu=100, micro_steps_per_second=1, ci_permille=1)]
    curve = CpuFact(gpus=1, points=points)
    facts = {"gpuModel": "V100", "links": [FACT.to_json()], "cpus": [curve.to_json()]}
    status = profiles.status_of({"status": {"facts": facts}})
    assert (profiles.link_fact(status), profiles.link_fact(status, 3)) == (FACT, None)
    assert (profiles.cpu_fact(status), profiles.cpu_fact(status, 3)) == (curve, None)
    assert profiles.status_of({}) == GPUProfileStatus()
    assert profiles.link_fact(GPUProfileStatus()) is None


def test_curve_is_compared_between_its_points_too() -> None:
    rates: Any = {100: 10_000_000, 300: 20_000_000}
    points = [
        CpuPoint(milli_cpu=limit, micro_steps_per_second=rate, ci_permille=1)
        for limit, rate in rates.items()
    ]
    truth = {100: 10.0, 200: 16.0, 300: 20.0, 400: 20.0}
    found = cpus.errors(CpuFact(gpus=1, points=points), truth)
    assert found == pytest.approx({100: 0.0, 200: 15 / 16 - 1, 300: 0.0})


def test_writes_are_counted_by_kind_of_object_and_not_by_subresource() -> None:
    line = (
        'apiserver_request_total{{code="200",dry_run="",group="{}",resource="{}",'
        'scope="resource",subresource="{}",verb="{}",version="v1alpha1"}} 7'
    )
    counters = [
        ("gputopo.io", "gpujobs", "status", "PATCH"),
        ("gputopo.io", "gpujobs", "", "POST"),
        ("gputopo.io", "gputopologies", "status", "PATCH"),
        ("gputopo.io", "gputopologies", "", "GET"),
        ("batch", "jobs", "", "PATCH"),
    ]
    metrics = "\n".join(line.format(*each) for each in counters)
    assert agentcost.writes_in(metrics) == {"gpujobs": 14, "gputopologies": 7}


def test_every_experiment_is_found_by_its_name() -> None:
    names = {name: one.name for name, one in EXPERIMENTS.items()}
    assert names == {name: name for name in ("links", "cpus", "interference", "overhead", "soak")}


def test_runs_of_one_workload_differ_in_their_noise_only() -> None:
    workload = Workload("bert", "n1", 60, TOPOLOGY)
    assert workload.law(1) | {"seed": 2} == workload.law(2)
    assert replace(RUN, name="run-2").law == RUN.law
