"""Before a job starts, two short runs measure the best and the worst links of one node."""

from typing import Any

import pytest

from gputopo.api.known_facts import parse_facts
from gputopo.api.link_runs import LinksResult
from gputopo.api.profile import GPUProfile, GPUProfileSpec
from gputopo.profiles.comparable import MIN_SAMPLES
from gputopo.sensitivity.resolve import SENSITIVE_FROM_PERCENT
from gputopo_operator.decision.link_runs import PLACE_SECONDS, POLL_SECONDS, STORE_SECONDS
from gputopo_operator.parse.jobs import QUEUE_LABEL
from gputopo_operator.parse.samples import by_pod, samples_of
from support.operator.link_situation import BEST, WORST, LinkSituation
from support.profiling.pods import sample


def test_job_starts_after_two_measured_runs(job: LinkSituation) -> None:
    assert list(job.runs) == [BEST]
    assert not job.is_started()
    job.after(10).place(BEST)
    job.after(100).measure(BEST, 12.0)
    assert job.result(BEST) == "Measured"
    assert list(job.runs) == [BEST, WORST]
    assert not job.is_started()
    job.after(10).place(WORST, chosen=12_000)
    job.after(100).measure(WORST, 8.0)
    assert not job.is_started()
    job.store()
    assert job.is_started()
    assert job.links() == LinksResult(
        result="Done",
        message="12 steps/s with 48 GB/s, 8 steps/s with 12 GB/s: the worst links make the job "
        "50 % slower; it waited 220 s for both runs on node n1",
    )
    assert job.condition("Profiled") == ("True", "Done")
    assert job.message().startswith("Links: 12 steps/s with 48 GB/s")
    assert job.condition("Accepted") == ("True", "JobCreated")


def test_conditions_show_the_measurement(job: LinkSituation) -> None:
    assert job.condition("Profiled") == ("False", "MeasuringLinks")
    assert job.message() == f"Links: Job {BEST} waits for idle GPUs"
    assert job.condition("Accepted") == ("True", "MeasuringLinks")
    assert job.condition("Placed") == ("False", "MeasuringLinks")
    assert job.status.phase == "Pending"
    job.place(BEST)
    assert job.message() == f"Links: Job {BEST} waits for samples"
    assert job.status.placements == []


def test_events_name_the_runs_and_their_results() -> None:
    job = LinkSituation()
    created = job.plan()
    assert [event.reason for event in created.events] == ["Accepted", "LinkRunCreated"]
    job.reconcile()
    job.place(BEST)
    job.samples["uid-train-links-best-1"] = [sample(8000, 1.0)] * MIN_SAMPLES
    [event] = job.plan().events
    assert (event.reason, event.note) == ("LinkRunEnded", f"ended Job {BEST}: Measured")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"gpusPerReplica": 1}, "spec.gpusPerReplica: 1 GPU uses no links"),
        ({"workload": None}, "spec.workload.profile: missing"),
        ({"labels": {QUEUE_LABEL: "research"}}, f"metadata.labels[{QUEUE_LABEL}]: a queue"),
    ],
)
def test_job_that_cannot_measure_links_starts_at_once(spec: dict[str, Any], expected: str) -> None:
    job = LinkSituation(**spec)
    job.reconcile()
    assert job.runs == {}
    assert job.condition("Profiled") == ("False", "NotPossible")
    assert expected in job.message()


def test_known_links_are_not_measured() -> None:
    job = LinkSituation()
    job.profile = GPUProfile(spec=GPUProfileSpec(bandwidth_sensitivity_percent=20))
    job.reconcile()
    assert job.condition("Profiled") == ("True", "Known")
    assert job.message() == "Links: the GPUProfile declares 20 %"
    assert job.runs == {}


@pytest.mark.parametrize(
    ("gpus", "sensitivity", "runs"), [(3, "Sensitive", 0), (3, "Unknown", 1), (2, "Sensitive", 1)]
)
def test_measured_fact_for_the_same_number_of_gpus_is_enough(
    gpus: int, sensitivity: str, runs: int
) -> None:
    fact = {"gpus": gpus, "percent": 40, "lowPercent": 30, "highPercent": 50, "samples": 8}
    facts = {"gpuModel": "V100", "links": [{**fact, "sensitivity": sensitivity}]}
    job = LinkSituation()
    job.profile = GPUProfile.model_validate({"status": {"facts": facts}})
    job.reconcile()
    assert len(job.runs) == runs
    if not runs:
        assert job.message() == "Links: the GPUProfile knows 40 % (30..50)"


def test_missing_profile_is_created_before_the_runs() -> None:
    job = LinkSituation()
    job.profile = None
    plan = job.plan()
    assert plan.create_profile == "resnet50"
    assert plan.create_link_run is not None


def test_job_waits_for_its_profile_a_short_time_only(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=12_000).measure(WORST, 8.0)
    assert job.message() == "Links: waiting until the GPUProfile has the samples of both runs"
    assert job.plan().recheck_after_seconds == POLL_SECONDS
    job.after(STORE_SECONDS - 1)
    assert job.plan().recheck_after_seconds == 1
    job.after(-STORE_SECONDS + 1)
    job.profile = None
    job.after(STORE_SECONDS).reconcile()
    assert job.condition("Profiled") == ("True", "Done")


def test_suspended_job_is_measured_when_it_is_resumed() -> None:
    job = LinkSituation(suspend=True)
    job.reconcile()
    assert job.status.phase == "Suspended"
    assert job.message() == "Links: the job is suspended"
    assert job.runs == {}
    job.job["spec"]["suspend"] = False
    job.reconcile()
    assert list(job.runs) == [BEST]


def test_pods_of_the_job_get_the_fact_of_both_runs(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=12_000).measure(WORST, 8.0).learn()
    assert job.child is not None
    annotations = job.child["spec"]["template"]["metadata"]["annotations"]
    facts = parse_facts(annotations)
    assert facts is not None
    assert facts.links[3].percent == 50
    assert facts.links[3].samples == 2 * MIN_SAMPLES
    assert facts.links[3].low >= SENSITIVE_FROM_PERCENT


def test_job_waits_until_its_profile_has_every_sample(job: LinkSituation) -> None:
    job.place(BEST).measure(BEST, 12.0)
    job.place(WORST, chosen=12_000).measure(WORST, 8.0, samples=1)
    job.learn()
    second = job.pods[-1]
    job.samples["uid-train-links-worst-1"] = job.taken(WORST, 8.0)
    job.write(job.plan())
    job.pods.append(second)  # the pod ends slowly
    job.reconcile()
    assert job.message() == "Links: waiting until the GPUProfile has the samples of both runs"
    job.learn()
    assert job.is_started()


def test_child_job_that_is_created_again_is_not_measured_again(job: LinkSituation) -> None:
    job.after(PLACE_SECONDS).reconcile()
    job.child, job.runs = None, {}
    job.reconcile()
    assert job.runs == {}
    assert job.message() == "Links: links are measured only before the Job is first created"


def test_job_that_measures_links_and_cpus_reports_both() -> None:
    job = LinkSituation(profiling={"measure": ["CPUs", "Links"]})
    job.reconcile()
    job.after(PLACE_SECONDS).reconcile()
    assert job.condition("Profiled") == ("False", "NotPlaced")
    assert job.message().endswith("; CPUs: waiting for the first sample")


def test_valid_samples_of_each_pod_are_sorted_by_time() -> None:
    first, second = (sample(1000, rate, at=at) for rate, at in ((1.0, 5), (2.0, 9)))
    samples = [second.to_json(), first.to_json(), {"podUID": "uid-train"}]
    found = samples_of({"status": {"samples": samples}})
    assert by_pod(found) == {"uid-train": [first, second]}
    assert samples_of({}) == ()


def test_invalid_result_annotation_is_ignored() -> None:
    assert LinksResult.parse("{") is None
    assert LinksResult.parse(None) is None


def test_run_goes_on_until_it_has_three_samples() -> None:
    job = LinkSituation()
    job.reconcile()
    job.place(BEST)
    job.samples[f"uid-{BEST}-1"] = [sample(8000, 12.0), sample(8000, 12.0, at=1)]
    job.reconcile()
    assert job.message() == f"Links: Job {BEST} waits for samples"
    job.measure(BEST, 12.0)
    assert job.result(BEST) == "Measured"


def test_at_half_of_the_time_limit_one_sample_is_enough() -> None:
    job = LinkSituation()
    job.reconcile()
    job.place(BEST)
    job.samples[f"uid-{BEST}-1"] = [sample(8000, 12.0)]
    job.after(300).reconcile()
    assert job.result(BEST) == "Measured"
